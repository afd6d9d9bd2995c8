#compdef swctl
# Completes the words of swctl in zsh.
_swctl() {
	local line value tab=$'\t'
	local -a values
	for line in "${(@f)$(swctl __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
		if [[ $line == $tab* ]]; then
			compset -P '*='
			_files
		elif [[ -n $line ]]; then
			value=${line%%$tab*}
			value=${value//\\/\\\\}
			values+=("${value//:/\\:}:${line#*$tab}")
		fi
	done
	_describe swctl values
}
if [[ ${funcstack[1]-} == _swctl ]]; then
	_swctl "$@"
else
	compdef _swctl swctl
fi
