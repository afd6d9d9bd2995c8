#!/usr/bin/env bash
# Installs packages of Debian that tests need, if they are missing: packages.sh PACKAGE...
set -euo pipefail

(($#)) || {
	echo "usage: packages.sh PACKAGE..." >&2
	exit 2
}
missing=()
for package; do
	dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
((${#missing[@]})) || exit 0
if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
	echo "packages.sh: missing: ${missing[*]}. As root: apt-get install --no-install-recommends ${missing[*]}" >&2
	exit 1
fi
echo "packages.sh: installing ${missing[*]} with apt-get"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -q -y -o DPkg::Lock::Timeout=300)
# Services of databases would take memory and ports; the tests start their own servers.
if ! { "${apt[@]}" update && RUNLEVEL=1 "${apt[@]}" install --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
	cat "$log" >&2
	echo "packages.sh: apt-get could not install ${missing[*]}: see its output above" >&2
	exit 1
fi
