"use strict";
(() => {
	// "/" goes to the filter, as in other tools.
	document.addEventListener("keydown", (event) => {
		const field = document.querySelector("input[type=search]");
		if (event.key === "/" && field && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
			event.preventDefault();
			field.focus();
		}
	});

	// A click on a time of a job explains the tick.
	document.addEventListener("click", (event) => {
		const drawn = event.target.closest("svg.by-job");
		if (!drawn) return;
		const { from, to } = drawn.closest("table").dataset;
		const part = (event.clientX - drawn.getBoundingClientRect().left) / drawn.getBoundingClientRect().width;
		const at = new Date(Number(from) + part * (to - from));
		const link = new URL(drawn.closest("tr").querySelector("th a").href);
		link.searchParams.set("at", at.toISOString());
		link.hash = "why";
		location.href = link.href;
	});

	// morph makes a node equal to another one and keeps what is equal already: focus, selection and scrolling stay.
	const morph = (from, to) => {
		if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
			from.replaceWith(to.cloneNode(true));
			return;
		}
		if (from.nodeType === Node.TEXT_NODE) {
			if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
			return;
		}
		for (const { name } of [...from.attributes]) {
			if (!to.hasAttribute(name) && name !== "open") from.removeAttribute(name);
		}
		for (const { name, value } of to.attributes) {
			if (from.getAttribute(name) !== value) from.setAttribute(name, value);
		}
		const [old, next] = [[...from.childNodes], [...to.childNodes]];
		next.forEach((node, i) => (i < old.length ? morph(old[i], node) : from.append(node.cloneNode(true))));
		old.slice(next.length).forEach((node) => node.remove());
	};

	const bar = document.querySelector(".live");
	if (!bar || !window.EventSource) return;
	const [button, sign] = [document.getElementById("pause"), document.getElementById("live")];
	const least = 2000, most = 15000; // milliseconds between two readings of the page
	let paused = false, stream = null, last = Date.now(), timer = 0, busy = false;
	const say = (text, bad) => {
		if (sign.textContent !== text) sign.textContent = text;
		sign.className = bad ? "off" : "";
	};

	// refresh reads this page again and takes over what is live in it.
	const refresh = async () => {
		if (paused || busy || document.hidden) return;
		[busy, last] = [true, Date.now()];
		try {
			const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(30000) });
			const page = new DOMParser().parseFromString(await answer.text(), "text/html");
			if (!answer.ok) throw new Error(answer.statusText);
			for (const part of paused ? [] : document.querySelectorAll("[data-live]")) {
				const next = page.querySelector(`[data-live="${part.dataset.live}"]`);
				if (next) morph(part, next);
			}
			if (stream && stream.readyState === EventSource.OPEN) say("live");
		} catch {
			say("this page is old: the server does not answer", true);
		}
		busy = false;
	};
	const soon = (wait) => {
		clearTimeout(timer);
		timer = setTimeout(async () => {
			await refresh();
			soon(most);
		}, Math.max(wait, last + least - Date.now()));
	};

	let due = 0;
	const changed = () => {
		if (due > Date.now()) return;
		due = Math.max(Date.now() + 300, last + least);
		soon(due - Date.now());
	};
	const open = () => {
		if (stream || paused || document.hidden) return;
		stream = new EventSource("api/v1/events");
		stream.onopen = () => {
			say("live");
			changed();
		};
		stream.onmessage = changed;
		stream.addEventListener("reset", changed);
		stream.onerror = () => {
			say("connection lost: trying again", true);
			if (stream && stream.readyState === EventSource.CLOSED) {
				stream = null;
				setTimeout(open, 5000);
			}
		};
		soon(most);
	};
	const close = () => {
		if (stream) stream.close();
		stream = null;
		clearTimeout(timer);
	};
	button.addEventListener("click", () => {
		paused = !paused;
		button.setAttribute("aria-pressed", String(paused));
		button.textContent = paused ? "Resume updates" : "Pause updates";
		if (paused) {
			close();
			say("paused");
		} else {
			open();
		}
	});
	// A hidden page follows nothing: browsers have few connections for one server.
	document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
	bar.hidden = false;
	open();
})();
