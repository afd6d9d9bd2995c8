#!/usr/bin/env bash
# Installs PostgreSQL and MariaDB, which the tests of swctl-sql start, if they are missing.
set -euo pipefail

readonly packages=(postgresql mariadb-server)

[[ ${1:-} == install && $# == 1 ]] || {
	echo "usage: databases.sh install" >&2
	exit 2
}
missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
((${#missing[@]})) || exit 0
if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
	echo "databases.sh: missing: ${missing[*]}. As root: apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi
echo "databases.sh: installing ${missing[*]} with apt-get"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -q -y -o DPkg::Lock::Timeout=300)
# Their services would take memory and ports; the tests start their own servers.
if ! { "${apt[@]}" update && RUNLEVEL=1 "${apt[@]}" install --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 </dev/null; then
	cat "$log" >&2
	echo "databases.sh: apt-get could not install ${missing[*]}: see its output above" >&2
	exit 1
fi
