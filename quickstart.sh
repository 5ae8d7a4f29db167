#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# quickstart.sh - build cowfs, format an image in a temporary directory, mount it and show it at
# work. Leaves nothing behind but the build directory build/. Root also installs what is missing.
set -euo pipefail
cd "$(dirname "$0")"
exec </dev/null

tools/install build
if [ ! -f build/build.ninja ]; then
	meson setup build >/dev/null
fi
ninja -C build | tail -n 1

dir=$(mktemp -d)
daemon=
cleanup()
{
	if mountpoint -q "$dir/mnt"; then
		umount "$dir/mnt" 2>/dev/null || fusermount3 -uz "$dir/mnt" || true
	fi
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	rm -rf --one-file-system "$dir"
}
trap cleanup EXIT
mkdir "$dir/mnt"

show() { echo "\$ $*"; "$@"; }

mount_it()
{
	echo "\$ cowfs-fuse -f $dir/image $dir/mnt &"
	build/fs/cowfs-fuse -f "$dir/image" "$dir/mnt" &
	daemon=$!
	until mountpoint -q "$dir/mnt"; do
		kill -0 $daemon 2>/dev/null || { wait $daemon; exit 1; }
		sleep 0.05
	done
}

umount_it()
{
	echo "\$ umount $dir/mnt"
	umount "$dir/mnt" 2>/dev/null || fusermount3 -u "$dir/mnt"
	wait $daemon
	daemon=
}

show build/mkfs/mkfs.cowfs -b 1g -L quickstart "$dir/image"
mount_it
show cp -r fs io "$dir/mnt"
show ln -s fs/meson.build "$dir/mnt/link"
show mkdir "$dir/mnt/empty"
show df -hT "$dir/mnt"
show ls -l "$dir/mnt"
umount_it
mount_it
show diff -r fs "$dir/mnt/fs"
show diff -r io "$dir/mnt/io"
umount_it
if command -v btrfs >/dev/null; then
	show btrfs check --readonly --check-data-csum "$dir/image" 2>&1 | tail -n 20
fi
echo "cowfs works."
