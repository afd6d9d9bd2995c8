"use strict";
(() => {
	// The server writes all times, in the zone of a cookie: the viewer's own one, or UTC.
	const base = new URL(".", document.querySelector("link[rel=stylesheet]").href).pathname;
	const local = Intl.DateTimeFormat().resolvedOptions().timeZone;
	const chosen = (document.cookie.match(/(?:^|; )singleworker_zone=([^;]*)/) || [])[1];
	const choose = (zone) => {
		document.cookie = `singleworker_zone=${zone}; path=${base}; max-age=31536000; samesite=strict`;
		if (document.cookie.includes(`singleworker_zone=${zone}`)) location.reload();
	};
	const other = document.getElementById("zone");
	if (other && local && local !== "UTC") {
		if (chosen !== local && chosen !== "UTC") choose(local);
		other.hidden = false;
		other.textContent = chosen === "UTC" ? "Local time" : "UTC";
		other.addEventListener("click", () => choose(chosen === "UTC" ? local : "UTC"));
	}

	// What was done is said once.
	const here = new URL(location.href);
	if (here.searchParams.has("done")) {
		["done", "of"].forEach((field) => here.searchParams.delete(field));
		history.replaceState(null, "", here);
	}

	const current = document.querySelector("header [aria-current]");
	if (current) current.parentElement.scrollLeft = current.offsetLeft - current.parentElement.offsetLeft;

	// The token and the name are asked for once in a session of the browser.
	for (const field of document.querySelectorAll('[name="token"], [name="by"]')) {
		const key = `singleworker ${base} ${field.name}`;
		field.value ||= sessionStorage.getItem(key) || "";
		field.form.addEventListener("submit", () => sessionStorage.setItem(key, field.value));
	}

	// A click on a command copies it.
	document.addEventListener("click", async (event) => {
		const command = event.target.closest(".try code");
		if (!command || !navigator.clipboard) return;
		await navigator.clipboard.writeText(command.textContent).catch(() => {});
		command.classList.add("copied");
		setTimeout(() => command.classList.remove("copied"), 1500);
	});

	// The lines that differ from the job as it is are below its text, before it is sent.
	const spec = document.getElementById("spec"), changes = document.getElementById("changes");
	if (spec) {
		const line = (kind, text) => Object.assign(document.createElement(kind), { textContent: text });
		const compare = () => {
			let [was, is] = [spec.defaultValue.split("\n"), spec.value.split("\n")];
			while (was.length && was[0] === is[0]) [was, is] = [was.slice(1), is.slice(1)];
			while (was.length && was.at(-1) === is.at(-1)) [was, is] = [was.slice(0, -1), is.slice(0, -1)];
			[was, is] = [was.slice(0, 500), is.slice(0, 500)];
			// longest[i][j] is how many lines they have in common, from i and j on.
			const longest = Array.from({ length: was.length + 1 }, () => new Array(is.length + 1).fill(0));
			for (let i = was.length - 1; i >= 0; i--) {
				for (let j = is.length - 1; j >= 0; j--) {
					longest[i][j] = was[i] === is[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
				}
			}
			const lines = [];
			for (let i = 0, j = 0; i < was.length || j < is.length; ) {
				if (i < was.length && was[i] === is[j]) [i, j] = [i + 1, j + 1];
				else if (j === is.length || (i < was.length && longest[i + 1][j] >= longest[i][j + 1])) lines.push(line("del", was[i++]));
				else lines.push(line("ins", is[j++]));
			}
			changes.hidden = lines.length === 0;
			changes.querySelector("pre").replaceChildren(...lines);
		};
		spec.addEventListener("input", compare);
		if (spec.value !== spec.defaultValue) compare(); // the browser has kept it
	}

	// Jobs that are selected get an action one after the other.
	const picks = () => [...document.querySelectorAll('input[name="job"]')];
	const picked = () => picks().filter((pick) => pick.checked).map((pick) => pick.value);
	const many = document.getElementById("many");
	if (many) {
		const said = many.querySelector("output"), verbs = many.querySelectorAll("button[name]");
		document.documentElement.classList.add("picks");
		document.addEventListener("change", ({ target }) => {
			if (!target.closest(".pick")) return;
			if (!target.name) picks().forEach((pick) => (pick.checked = target.checked));
			many.classList.toggle("shown", picked().length > 0);
			said.textContent = `${picked().length} selected`;
			verbs.forEach((verb) => (verb.disabled = picked().length === 0));
		});
		many.addEventListener("submit", async (event) => {
			event.preventDefault();
			const [names, refused, verb] = [picked(), [], event.submitter];
			let done = 0;
			verbs.forEach((button) => (button.disabled = true));
			for (const [i, name] of names.entries()) {
				said.textContent = `${verb.textContent}: ${i + 1} of ${names.length}`;
				try {
					const body = new URLSearchParams(new FormData(many));
					const answer = await fetch(`api/v1/jobs/${encodeURIComponent(name)}/${verb.name}`, { method: "POST", headers: { Accept: "application/json" }, body });
					if (answer.ok) done++;
					else refused.push(`${name}: ${(await answer.json()).error.message}`);
					if (answer.status === 401) break; // so it is for the others
				} catch (error) {
					refused.push(`${name}: ${error.message}`);
				}
			}
			said.textContent = [`${verb.textContent}: ${done} of ${names.length} done`, ...refused].join("; ");
			verbs.forEach((button) => (button.disabled = false));
		});
	}

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
			const kept = new Set(picked());
			for (const part of paused ? [] : document.querySelectorAll("[data-live]")) {
				const next = page.querySelector(`[data-live="${part.dataset.live}"]`);
				// A button that somebody is about to press stays where it is.
				if (next && !part.querySelector("button:hover, button:focus")) morph(part, next);
			}
			picks().forEach((pick) => (pick.checked = kept.has(pick.value)));
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
