# Completes the words of swctl in fish.
function __swctl_complete
	set -l words (commandline -opc)
	set -e words[1]
	set -l typed (commandline -ct)
	for line in (swctl __complete $words "$typed" 2>/dev/null)
		if string match -q \t'*' -- $line
			set -l flag (string match -r -- '^--[^=]*=' "$typed")
			for path in (__fish_complete_path (string replace -- "$flag" '' "$typed"))
				echo "$flag$path"
			end
		else
			echo $line
		end
	end
end
complete -c swctl -f -a '(__swctl_complete)'
