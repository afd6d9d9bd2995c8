"use strict";
// "/" goes to the filter, as in other tools.
document.addEventListener("keydown", (event) => {
	const field = document.querySelector("input[type=search]");
	if (event.key === "/" && field && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
		event.preventDefault();
		field.focus();
	}
});
