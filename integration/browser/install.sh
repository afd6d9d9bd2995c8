#!/usr/bin/env bash
# Installs what the tests in a browser need, and prints the directory of the Node.js modules: Chromium, from Debian, and
# the modules of package.json, from npm. What is there already is left alone.
#
#   CHROMIUM             the browser to use (default: chromium in the PATH)
#   BROWSER_MODULES      where the modules are (default: ~/.cache/singleworker-browser)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

die() {
	printf 'install.sh: %s\n' "$*" >&2
	exit 1
}

readonly modules=${BROWSER_MODULES:-${XDG_CACHE_HOME:-$HOME/.cache}/singleworker-browser}
missing=()
command -v "${CHROMIUM:-chromium}" >/dev/null || missing+=(chromium)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
if ((${#missing[@]})); then
	if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
		die "install ${missing[*]}, or name a browser with CHROMIUM"
	fi
	{ apt-get install -y --no-install-recommends "${missing[@]}" || { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; }; } >&2
fi
if ! cmp -s package.json "$modules/package.json" || [[ ! -d $modules/node_modules/playwright-core || ! -d $modules/node_modules/axe-core ]]; then
	mkdir -p "$modules"
	cp package.json "$modules/package.json.new"
	(cd "$modules" && mv package.json.new package.json && PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm install --no-audit --no-fund --silent >&2) ||
		{ rm -f "$modules/package.json"; die "npm could not install the modules into $modules"; }
fi
printf '%s\n' "$modules"
