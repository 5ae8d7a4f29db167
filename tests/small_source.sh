# SPDX-License-Identifier: GPL-2.0-or-later
#
# tests/small_source.sh - a source tree of some size to copy around; sourced after lib.sh.
#
# small_source DIR: fill the existing DIR with a few thousand source files: part of the Linux
# source where it is installed, else the headers in /usr/include with cowfs's own source.
small_source()
{
	if have linux-source; then
		tar -xf "$linux_source" -C "$1" --strip-components=1 --wildcards --no-wildcards-match-slash \
			'*/fs' '*/mm' '*/ipc' '*/kernel' '*/scripts'
	else
		cp -r /usr/include "$top/fs" "$top/io" "$top/btree" "$1"
	fi
}
