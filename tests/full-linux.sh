#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# tests/full-linux.sh [NODESIZE...] - the whole Linux source (79 000 files) through a fresh cowfs.
#
# For each node size (4096 16384 65536): unpack, compare with diff -r, remount and compare, btrfs
# check with data checksums, compare under the kernel, remove half of it there, compare in cowfs,
# remove the rest in cowfs; at the end check is clean, no data bytes are used, and df offers 95 %
# of what it did when fresh. Needs root, and about 8 GiB in /dev/shm or COWFS_TEST_TMP.
# COWFS_LINUX_SOURCE names the archive. The last line counts: N passed, N failed, N skipped.
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- 4096 16384 65536
passed=0 failed=0

"$here/../tools/install" test full || { echo "0 passed, 0 failed, $# skipped"; exit 1; }

one() # NODESIZE
{
	. "$here/lib.sh"
	local src=$T/src fresh now

	have loop && have btrfs || skip "needs root, loop devices and the kernel's btrfs"
	have linux-source || skip "no $linux_source"
	mkdir "$src"
	tar -xf "$linux_source" -C "$src" --strip-components=1
	say "node size $1: unpack ($SECONDS s)"
	make_image 6G -n "$1"
	cowfs_mount
	fresh=$(df -B1 --output=avail "$mnt" | tail -n 1)
	mkdir "$mnt/linux"
	tar -xf "$linux_source" -C "$mnt/linux" --strip-components=1
	say "compare ($SECONDS s)"
	diff -r --no-dereference "$src" "$mnt/linux"
	cowfs_remount
	diff -r --no-dereference "$src" "$mnt/linux"
	tree "$mnt" >"$T/tree"
	cowfs_umount
	say "judge ($SECONDS s)"
	judge "$T/tree"
	say "remove half of it under the kernel ($SECONDS s)"
	kernel_mount
	diff -r --no-dereference "$src" "$kmnt/linux"
	(cd "$kmnt" && find . -type f | sort | awk 'NR % 2' | xargs -d '\n' rm)
	tree "$kmnt" >"$T/tree"
	kernel_umount
	check_image
	say "compare and remove the rest ($SECONDS s)"
	cowfs_mount
	same_tree "$T/tree" "$mnt"
	rm -rf "$mnt/linux"
	[ -z "$(ls -A "$mnt")" ] || fail "something is left"
	cowfs_remount
	now=$(df -B1 --output=avail "$mnt" | tail -n 1)
	say "df offered $fresh, offers $now"
	[ "$now" -ge $((fresh * 95 / 100)) ] || fail "df offers $now after removal, $fresh when fresh"
	cowfs_umount
	judge
	btrfs inspect-internal dump-tree -t extent "$img" >"$T/extents"
	! grep -q 'refs .* flags DATA' "$T/extents" || fail "data extents are left"
	say "done ($SECONDS s)"
}

for node; do
	(SECONDS=0; one "$node")
	case $? in
	0) passed=$((passed + 1)); echo "ok    node size $node" ;;
	77) skipped=$((${skipped:-0} + 1)) ;;
	*) failed=$((failed + 1)); echo "FAIL  node size $node" ;;
	esac
done
echo "$passed passed, $failed failed, ${skipped:-0} skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
