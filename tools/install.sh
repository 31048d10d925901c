#!/bin/sh
# Installs Debian packages that a make target lacks: install.sh PACKAGE...
as_root=
[ "$(id -u)" = 0 ] || as_root=sudo
if ! command -v apt-get > /dev/null || { [ -n "$as_root" ] && ! sudo -n true 2> /dev/null; }; then
    echo "missing: please install $* (names of Debian packages) and try again" >&2
    exit 1
fi
echo "installing $*"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get install -y -q "$@" > /dev/null 2>&1 && exit 0
$as_root apt-get update -q > /dev/null && $as_root apt-get install -y -q "$@" > /dev/null
