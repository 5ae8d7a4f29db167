#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# usage: headers.sh SOURCE_ROOT COMPILER...
# Compiles every header of the program alone: each includes what it needs.
set -u
root=$1
shift
cd "$root" || exit 1
flags="-std=gnu17 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Wall -Wextra -Wshadow -Wconversion -Wvla
	-Wstrict-prototypes -Wmissing-prototypes -Wno-missing-field-initializers -Werror -I."
# FUSE may be absent; only the headers of the front end need it.
fuse=$(pkg-config --cflags fuse3 2>/dev/null) || fuse=
failed=0
count=0
for header in $(find io btree alloc fs mkfs tools tests bench -name '*.h' | sort); do
	case $header in
	fs/fuse_*) [ -n "$fuse" ] || continue; extra="$fuse -DFUSE_USE_VERSION=312" ;;
	*) extra= ;;
	esac
	count=$((count + 1))
	# shellcheck disable=SC2086
	if ! printf '#include "%s"\n' "$header" | "$@" $flags $extra -x c -fsyntax-only -; then
		echo "$header does not compile alone" >&2
		failed=1
	fi
done
echo "$count headers"
[ "$count" -gt 0 ] || failed=1
exit $failed
