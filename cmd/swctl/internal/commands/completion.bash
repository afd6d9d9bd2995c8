# Completes the words of swctl in bash 4.4 or newer.
_swctl() {
	local i rest=$COMP_LINE word line typed value
	local -a words=()
	# Bash splits words at = and :, too. Those without a blank between them are one.
	for ((i = 0; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if ((i > 0)) && [[ $rest != [[:blank:]]* ]]; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
		rest=${rest#"${rest%%[![:blank:]]*}"}
		rest=${rest#"$word"}
	done
	words=("${words[@]//[\\\'\"]/}")
	# It replaces the part behind the last = or :.
	[[ $word != [=:]* ]] || word=
	typed=${word//[\\\'\"]/}
	typed=${words[-1]%"$typed"}
	COMPREPLY=()
	while IFS= read -r line; do
		value=${line%%$'\t'*}
		if [[ -z $value ]]; then
			compopt -o default
			continue
		fi
		value=${value#"$typed"}
		[[ $word == [\'\"]* ]] || printf -v value %q "$value"
		COMPREPLY+=("$value")
	done < <(swctl __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _swctl swctl
