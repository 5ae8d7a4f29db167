# SPDX-License-Identifier: GPL-2.0-or-later
#
# tests/lib.sh - what the test scripts share; sourced, for bash.
#
# A script gets from tests/check an empty directory $T of its own, in which it keeps everything; when
# it has ended tests/check unmounts, detaches and removes whatever is left there. Run by itself a
# script makes the directory and cleans up in the same way.
#
# The daemon runs in the foreground as a child of the script, so that its exit status is known:
# cowfs_umount fails the test unless that is 0. Do not call cowfs_mount from a subshell.

set -Eeuo pipefail
export LC_ALL=C
umask 022

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${COWFS_BUILD:-$top/build}
mkfs_cowfs=$build/mkfs/mkfs.cowfs
cowfs_fuse=$build/fs/cowfs-fuse
manifest=$top/tests/images/manifest

trap 'status_=$?; echo "failed: ${BASH_SOURCE[0]##*/}:$LINENO: ${BASH_COMMAND%%$'"'\n'"'*} (status $status_)" >&2' ERR

# say TEXT: a line of progress; shown only when the test fails.
say() { echo "# $*"; }

# fail TEXT: end the test as failed.
fail()
{
	trap - ERR
	echo "FAILED: $*" >&2
	exit 1
}

# skip REASON: end the test as not run.
skip()
{
	echo "skipped: $*"
	exit 77
}

# have WHAT: whether this machine offers it; the words of a script's "# require:" line.
have()
{
	case $1 in
	root) [ "$(id -u)" = 0 ] ;;
	fuse) [ -w /dev/fuse ] ;;
	loop) [ "$(id -u)" = 0 ] && [ -w /dev/loop-control ] && losetup -f >/dev/null 2>&1 ;;
	btrfs)	# the kernel's own driver
		grep -qw btrfs /proc/filesystems || modprobe btrfs 2>/dev/null &&
			grep -qw btrfs /proc/filesystems ;;
	user)	# root that can become an ordinary user with /dev/fuse in a mount namespace of his own
		have root && unshare -m true 2>/dev/null && command -v fusermount3 >/dev/null &&
			setpriv --reuid nobody --regid nogroup --clear-groups test -r "$top/tests/lib.sh" ;;
	linux-source) [ -r "$linux_source" ] ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

linux_source=${COWFS_LINUX_SOURCE:-/usr/src/linux-source-6.1.tar.xz}

# scratch_base: a directory for scratch files: memory where there is plenty, else the disk.
scratch_base()
{
	local free

	if [ -n "${COWFS_TEST_TMP:-}" ]; then
		echo "$COWFS_TEST_TMP"
		return
	fi
	free=$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1) || free=0
	if [ "$(stat -fc %T /dev/shm 2>/dev/null)" = tmpfs ] && [ "${free:-0}" -gt 6000000 ]; then
		echo /dev/shm
	else
		echo "${TMPDIR:-/tmp}"
	fi
}

# clean_dir DIR: end the daemons of DIR's images, unmount all below it, detach its loops, remove it.
# Only processes whose command line names DIR and that run cowfs-fuse are ended.
clean_dir()
{
	local dir=$1 pid point dev try

	[ -d "$dir" ] || return 0
	for pid in $(pgrep -f "cowfs-fuse.* $dir/" || true); do
		[ "$pid" = $$ ] || kill -KILL "$pid" 2>/dev/null || true
	done
	for try in 1 2 3; do
		point=$(awk -v d="$dir/" 'index($5, d) == 1 { print $5 }' /proc/self/mountinfo | tac)
		[ -n "$point" ] || break
		for point in $point; do
			# -f ends the connection: a killed daemon may hang in the kernel, in a request
			# to itself.
			umount -f "$(printf %b "$point")" 2>/dev/null ||
				umount -l "$(printf %b "$point")" 2>/dev/null ||
				fusermount3 -uz "$(printf %b "$point")" 2>/dev/null || true
		done
	done
	if have loop; then
		for dev in $(losetup -nO NAME,BACK-FILE 2>/dev/null |
				awk -v d="$dir/" 'index($2, d) == 1 { print $1 }'); do
			losetup -d "$dev" 2>/dev/null || true
		done
	fi
	rm -rf --one-file-system "$dir"
}

if [ -n "${TEST_DIR:-}" ]; then
	T=$TEST_DIR
else
	T=$(mktemp -d "$(scratch_base)/cowfs-test.XXXXXX")
	trap 'trap - ERR; cd /; clean_dir "$T"' EXIT
fi
img=$T/img
mnt=$T/mnt
kmnt=$T/kmnt
mkdir -p "$mnt" "$kmnt"

declare -A daemon_of=()		# mount point -> pid
declare -A loop_of=()		# kernel mount point -> loop device

# ---- images ---------------------------------------------------------------------------------

# make_image SIZE [OPTION...]: format $img, a new file of SIZE, with mkfs.cowfs.
make_image()
{
	local size=$1

	shift
	rm -f "$img"
	truncate -s "$size" "$img"
	timeout 120 "$mkfs_cowfs" -q "$@" "$img"
}

# kernel_image SIZE [OPTION...]: the same with mkfs.btrfs.
kernel_image()
{
	local size=$1

	shift
	rm -f "$img"
	truncate -s "$size" "$img"
	timeout 120 mkfs.btrfs -q "$@" "$img"
}

# image_sum [IMAGE]: a checksum of its size, its data and where these lie (so of its holes).
image_sum()
{
	python3 - "${1:-$img}" <<-'END'
		import hashlib, os, sys
		f = os.open(sys.argv[1], os.O_RDONLY)
		size, at, total = os.fstat(f).st_size, 0, hashlib.blake2b()
		while at < size:
		    try:
		        start = os.lseek(f, at, os.SEEK_DATA)
		    except OSError:
		        break
		    at = os.lseek(f, start, os.SEEK_HOLE)
		    total.update(b"%d %d " % (start, at))
		    while start < at:
		        data = os.pread(f, min(at - start, 1 << 20), start)
		        total.update(data)
		        start += len(data)
		print(size, total.hexdigest())
	END
}

# ---- cowfs ----------------------------------------------------------------------------------

# cowfs_start IMAGE MOUNTPOINT [OPTION...]: start the daemon; 0 when mounted, else its exit status.
cowfs_start()
{
	local image=$1 point=$2 pid n status

	shift 2
	"$cowfs_fuse" -f "$@" "$image" "$point" &
	pid=$!
	for ((n = 0; n < 3000; n++)); do
		if ! kill -0 "$pid" 2>/dev/null; then
			status=0
			wait "$pid" || status=$?
			return $((status == 0 ? 125 : status))
		fi
		if mountpoint -q "$point" 2>/dev/null; then
			daemon_of[$point]=$pid
			return 0
		fi
		sleep 0.02
	done
	kill -KILL "$pid" 2>/dev/null || true
	echo "cowfs-fuse did not mount within a minute" >&2
	return 126
}

# cowfs_mount [OPTION...]: mount $img at $mnt; the test fails if that fails.
cowfs_mount()
{
	local status=0

	cowfs_start "$img" "$mnt" "$@" || status=$?
	[ "$status" = 0 ] || fail "mounting $img $* failed with status $status"
}

# cowfs_wait [MOUNTPOINT] [STATUS]: wait for the daemon of an unmounted filesystem; it must end
# with STATUS (0).
cowfs_wait()
{
	local point=${1:-$mnt} want=${2:-0} status=0

	wait "${daemon_of[$point]}" || status=$?
	unset "daemon_of[$point]"
	[ "$status" = "$want" ] || fail "the daemon ended with status $status, not $want"
}

# cowfs_umount [MOUNTPOINT]: unmount and wait until the daemon has ended, with success.
cowfs_umount()
{
	local point=${1:-$mnt}

	umount "$point" 2>/dev/null || fusermount3 -u "$point"
	cowfs_wait "$point" 0
}

cowfs_remount()
{
	cowfs_umount
	cowfs_mount "$@"
}

# cowfs_kill [MOUNTPOINT]: SIGKILL for the daemon, as a crash would.
cowfs_kill()
{
	local point=${1:-$mnt}

	kill -KILL "${daemon_of[$point]}"
	{ wait "${daemon_of[$point]}" || true; } 2>/dev/null
	unset "daemon_of[$point]"
	umount -f "$point" 2>/dev/null || umount -l "$point" 2>/dev/null || fusermount3 -uz "$point" || true
}

# refused TEXT COMMAND...: the command must fail with exactly one line on stderr that matches the
# extended regular expression TEXT, and print nothing else.
refused()
{
	local text=$1 status=0

	shift
	timeout 60 "$@" </dev/null >"$T/refused.out" 2>"$T/refused.err" || status=$?
	say "$* -> $status: $(cat "$T/refused.err")"
	[ "$status" != 0 ] || fail "accepted: $*"
	[ "$status" -lt 124 ] || fail "status $status: $*"
	[ ! -s "$T/refused.out" ] || fail "stdout not empty: $*"
	[ "$(wc -l <"$T/refused.err")" = 1 ] || fail "not one line on stderr: $*"
	grep -Eqi -- "$text" "$T/refused.err" || fail "the message does not say '$text': $*"
}

# cowfs_refused TEXT [OPTION...]: mounting $img at $mnt is refused so, and not a byte of it changed.
cowfs_refused()
{
	local text=$1 before

	shift
	before=$(image_sum)
	refused "$text" "$cowfs_fuse" "$@" "$img" "$mnt"
	! mountpoint -q "$mnt" || fail "refused, but mounted"
	[ "$before" = "$(image_sum)" ] || fail "the image was changed by a refused mount"
}

# ---- the kernel's own btrfs -----------------------------------------------------------------

# kernel_mount [OPTIONS [IMAGE]]: mount at $kmnt through a loop device. What the kernel logs about
# the device from here to kernel_umount must hold no warning.
kernel_mount()
{
	local options=${1:-rw} image=${2:-$img} dev

	dev=$(losetup -f --show "$image")
	loop_of[$kmnt]=$dev
	kernel_mark=cowfs-test-$$-$RANDOM
	echo "$kernel_mark" >/dev/kmsg
	mount -t btrfs -o "$options" "$dev" "$kmnt"
}

kernel_umount()
{
	local dev=${loop_of[$kmnt]} n

	umount "$kmnt"
	losetup -d "$dev"
	# While somebody else still looks at the device it is detached, but not yet.
	for ((n = 0; n < 500; n++)); do
		[ -e "/sys/block/${dev#/dev/}/loop/backing_file" ] || break
		sleep 0.02
	done
	unset "loop_of[$kmnt]"
	kernel_quiet "$dev"
}

# kernel_quiet DEVICE: fail if the kernel complained about it since kernel_mount.
kernel_quiet()
{
	local name=${1#/dev/} lines

	lines=$(dmesg | sed -n "/$kernel_mark/,\$p" | grep -v 'v1 is being deprecated' | grep -E \
		"BTRFS (warning|error|critical|alert|emergency).*\(device $name\b|WARNING:.*btrfs") || return 0
	fail "the kernel complained: $lines"
}

# ---- comparing ------------------------------------------------------------------------------

# tree DIR: everything a tree shows: names, types, modes, owners, times, links, xattrs, contents. Not
# the time of an empty folder of root: that may be the stand-in which a snapshot holds for a nested
# subvolume, and it is as old as the mount.
tree()
{
	timeout 900 "$manifest" "$1" | sed -E \
		's/^(\{"path":"[^"]+","type":"d","mode":"0755","uid":0,"gid":0,"nlink":1,"size":0,"mtime_ns":)[0-9]+/\1null/'
}

# same_tree FILE DIR: DIR still shows what FILE (made by tree) says.
same_tree()
{
	tree "$2" >"$T/tree.now"
	if ! cmp -s "$1" "$T/tree.now"; then
		diff "$1" "$T/tree.now" | head -n 20 || true
		fail "$2 differs from ${1##*/}"
	fi
}

# check_image [IMAGE]: btrfs check must find nothing.
check_image()
{
	local status=0 image=${1:-$img}

	command -v btrfs >/dev/null || return 0
	timeout 600 btrfs check --readonly --check-data-csum "$image" >"$T/check.out" 2>&1 || status=$?
	if [ "$status" != 0 ] || ! grep -q 'no error found' "$T/check.out" ||
			grep -q '^ERROR' "$T/check.out"; then
		head -n 40 "$T/check.out"
		fail "btrfs check ended with status $status"
	fi
}

# judge [FILE]: the unmounted $img passes btrfs check, and the kernel mounts it without complaint
# and shows the tree in FILE. Where there is no loop device or no btrfs in the kernel, check alone.
judge()
{
	check_image
	if have loop && have btrfs; then
		kernel_mount ro
		[ $# = 0 ] || same_tree "$1" "$kmnt"
		kernel_umount
	fi
}

# settle [FILE]: what a test that has written does last: note the tree, see it again after a
# remount, unmount and have it judged. Leaves the tree in FILE ($T/tree).
settle()
{
	local file=${1:-$T/tree}

	tree "$mnt" >"$file"
	cowfs_umount
	cowfs_mount
	same_tree "$file" "$mnt"
	cowfs_umount
	judge "$file"
}

# ---- an ordinary user -----------------------------------------------------------------------

# as_user SCRIPT: run the bash text SCRIPT, after this file, as nobody in a private mount namespace
# with a /dev/fuse he may open; $T must belong to him. His mounts vanish with the namespace.
as_user()
{
	chown nobody "$T" "$mnt" "$kmnt"
	mkdir -p "$T/dev"
	TEST_DIR=$T COWFS_BUILD=$build unshare -m --propagation private bash -Eeuo pipefail -c '
		mount -t tmpfs -o dev,mode=755 none "$0/dev"
		mknod -m 666 "$0/dev/fuse" c 10 229
		mount --bind "$0/dev/fuse" /dev/fuse
		HOME=$0 exec setpriv --reuid nobody --regid nogroup --clear-groups \
			bash -c ". \"\$1\"; $2" bash "$1"
	' "$T" "$top/tests/lib.sh" "$1"
}

# ---- data -----------------------------------------------------------------------------------

# noise BYTES [SEED]: that many bytes that do not compress, the same for the same seed.
noise()
{
	python3 -c 'import random, sys
r = random.Random(sys.argv[2]); left = int(sys.argv[1])
while left:
	n = min(left, 1 << 20); sys.stdout.buffer.write(r.randbytes(n)); left -= n' "$1" "${2:-0}"
}

# stored_size FILE: its size once the kernel has been told of a write that found no room: what the
# writeback cache had taken beyond that goes away a moment after the call that failed.
stored_size()
{
	local n size blocks

	for ((n = 0; n < 100; n++)); do
		read -r size blocks <<<"$(stat -c '%s %b' "$1")"
		[ "$size" -gt $((blocks * 512)) ] || break
		sleep 0.1
	done
	echo "$size"
}

# fsync_path PATH: fsync a file or a directory.
fsync_path() { python3 -c 'import os, sys; os.fsync(os.open(sys.argv[1], os.O_RDONLY))' "$1"; }

# sample_tree DIR: fill DIR with a few hundred files, folders and links of many kinds.
sample_tree() { python3 "$top/tests/sample_tree.py" "$1"; }
