#!/bin/sh
# base-image.sh NAME ARCHITECTURE: makes the image that SAM puts Lambda's emulator on, without
# pulling anything: AWS's own where the engine has it already, else one static busybox. The
# function is a static binary and needs no more than a shell and what SAM's own build runs.
set -eu
name=$1 aws=public.ecr.aws/lambda/provided:al2023-$2
if docker image inspect "$aws" >/dev/null 2>&1; then
	exec docker tag "$aws" "$name"
fi
busybox=$(command -v busybox) || busybox=
if [ -z "$busybox" ] || ldd "$busybox" >/dev/null 2>&1; then
	echo "sam-local: a static busybox is missing: install it (Debian and Ubuntu: 'apt-get install busybox-static'), or pull AWS's image once ('docker pull $aws')." >&2
	exit 1
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/bin" "$root/tmp" "$root/etc" "$root/var/task" "$root/var/runtime" "$root/var/rapid"
chmod 755 "$root"
chmod 1777 "$root/tmp"
cp "$busybox" "$root/bin/busybox"
for command in sh mv chmod; do ln -s busybox "$root/bin/$command"; done
echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
tar -C "$root" -c . | docker import --message "Ferry: a stand-in for Lambda's base image" - "$name" >/dev/null
