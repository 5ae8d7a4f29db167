# SPDX-License-Identifier: GPL-2.0-or-later
#
# tests/enospc.sh - filling a filesystem to the last byte; sourced after lib.sh.
#
# fill_and_empty SIZE OPTION...: a fresh image is filled with small files and, after these are
# removed at the first try, with one big file; it stays writable and sound, and the space comes back.
# Sets $small_files and $big_bytes.
fill_and_empty()
{
	local fresh now taken out="$T/fill.out"

	say "$*"
	make_image "$@"
	cowfs_mount
	fresh=$(df -B1 --output=avail "$mnt" | tail -n 1)

	timeout 900 python3 "$top/tests/fill.py" "$mnt" small >"$out" || fail "small files on $*"
	small_files=$(cat "$out")
	say "$small_files small files"
	tree "$mnt" >"$T/tree"
	touch "$mnt/d0" || true
	grep " $mnt " /proc/self/mountinfo | grep -q ' rw[, ]' || fail "the mount is read-only"
	# Files that were made in a row fill tree blocks, and room comes back in whole blocks. (The kernel
	# lets go of removed files a moment later.)
	for ((n = 0; n < 200; n++)); do
		rm "$mnt/d$((n % 10))/$n" || fail "rm on a full filesystem"
	done
	for try in 1 2 3 4 5; do
		{ echo again >"$mnt/d0/again"; } 2>/dev/null && break
		[ $try -lt 5 ] || fail "no room for a file after 200 were removed"
		sleep 0.2
	done
	cowfs_umount
	judge
	cowfs_mount
	[ "$(find "$mnt" -type f -size +0 | wc -l)" -ge $((small_files - 200)) ] || fail "files are gone after a remount"
	rm -rf "$mnt"/* || fail "rm on a full filesystem"
	cowfs_remount
	now=$(df -B1 --output=avail "$mnt" | tail -n 1)
	# One group of metadata, a tenth of the device twice at most, may stay for what comes.
	[ "$now" -ge $((fresh * 90 / 100 - $(stat -c %s "$img") / 5)) ] ||
		fail "df offers $now after removal, $fresh when fresh"

	timeout 900 python3 "$top/tests/fill.py" "$mnt" big >"$out" || fail "a big file on $*"
	big_bytes=$(stored_size "$mnt/big")
	taken=$(cat "$out")
	say "$taken bytes taken, $big_bytes stored, $now offered"
	[ "$big_bytes" -gt $((now * 85 / 100)) ] || fail "only $big_bytes of $now bytes could be stored"
	sum=$(sha256sum <"$mnt/big")
	cowfs_umount
	judge
	cowfs_mount
	[ "$(stat -c %s "$mnt/big")" = "$big_bytes" ] || fail "another size after a remount"
	[ "$(sha256sum <"$mnt/big")" = "$sum" ] || fail "other contents after a remount"
	dd if=/dev/zero of="$mnt/big" bs=64k count=4 conv=notrunc,fsync status=none 2>"$T/err" ||
		grep -q 'No space left' "$T/err" || fail "overwriting: $(cat "$T/err")"
	truncate -s $((big_bytes / 2)) "$mnt/big" || fail "truncate on a full filesystem"
	fsync_path "$mnt/big"
	head -c $((big_bytes / 4)) /dev/zero >"$mnt/second" || fail "the space that truncate freed is not usable"
	rm "$mnt/big" "$mnt/second"
	cowfs_umount
	judge
}
