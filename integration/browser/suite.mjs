// Looks at the pages of one scene in a browser. The test in Go starts it, and answers what it asks for on its standard output:
// one line of JSON each. A line with "failed" fails the test; others are for people.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { URL: base, JOBS, TOKEN, OUT, MODULES, CHROMIUM } = process.env;
const require = createRequire(`${MODULES}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const failed = (...text) => say({ failed: text.join(" ") });
const ask = async (what) => {
	say({ ask: what });
	return (await answers.next()).value;
};
const maxWeight = 150 * 1024;
const patience = 90000; // milliseconds for whatever is awaited, on a machine that has much else to do
const [many, most] = [Number(JOBS) > 3, Number(JOBS) >= 500];

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"], timeout: patience });

// open makes a page that must not complain, and must never show a dialog.
const open = async (options) => {
	const context = await browser.newContext(options);
	context.setDefaultTimeout(patience);
	const page = await context.newPage();
	page.on("pageerror", (error) => failed(page.url(), error.message));
	page.on("dialog", (dialog) => {
		failed(page.url(), "a dialog:", dialog.message());
		dialog.dismiss();
	});
	page.on("console", (message) => {
		// An answer that is late, or cut, is the machine's fault; what scripts and the policy complain about is ours.
		if (/error|warning/.test(message.type()) && !/status of [45]\d\d|net::ERR_/.test(message.text())) failed(page.url(), message.text());
	});
	return page;
};

// arrive goes to a page. On a busy machine, an instance may be missing for a moment, or ZooKeeper late: then it is tried again.
const arrive = async (page, path) => {
	for (const until = Date.now() + patience; ; ) {
		const answer = await page.goto(base + path, { waitUntil: "load" });
		if (answer.status() === 200) return;
		if (Date.now() > until) return failed(path, answer.status());
		await page.waitForTimeout(1000);
	}
};

const judge = async (page, what) => {
	const before = await page.evaluate(() => document.title);
	await page.evaluate(axe); // which the pages' own policy does not see
	const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
	for (const v of result.violations.filter((v) => ["serious", "critical"].includes(v.impact))) {
		failed(what, v.id, v.help, v.nodes.slice(0, 3).map((n) => n.html).join(" "));
	}
	if (before.includes("owned by")) failed(what, "its title is", before);
};

let paths = ["", "jobs", "timeline", "timeline?by=instance", "owners", "calendar", "calendars", "instances", "log", "doctor", "edit?name=billing-export", "instance?id=app-1", "job?name=billing-export"];
if (most) paths = ["", "jobs", "timeline", "owners"];
else if (many) paths.push("job?name=shards", `job?name=${encodeURIComponent(await ask("hostile"))}`);

const kinds = [["desktop", { width: 1440, height: 900 }, "light"], ["tablet", { width: 900, height: 1000 }, "dark"], ["phone", { width: 390, height: 844 }, "dark"]];
for (const [kind, viewport, colorScheme] of kinds) {
	const page = await open({ viewport, colorScheme, bypassCSP: false });
	for (const path of paths) {
		await arrive(page, path);
		await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
		const seen = await page.evaluate(() => {
			const loaded = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].filter((e) => ["navigation", "link", "script", "css", "img"].includes(e.initiatorType)); // not what follows
			return {
				paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
				server: performance.getEntriesByType("navigation")[0].responseEnd,
				weight: loaded.reduce((sum, e) => sum + e.decodedBodySize, 0),
				sent: loaded.reduce((sum, e) => sum + e.encodedBodySize, 0),
				wide: document.scrollingElement.scrollWidth - window.innerWidth,
			};
		});
		if (seen.sent > maxWeight) failed(path, kind, "weighs", seen.sent);
		if (seen.wide > 0) failed(path, kind, "is wider than the window by", seen.wide);
		say({ page: path || "first page", kind, jobs: Number(JOBS), paint_ms: Math.round(seen.paint), server_ms: Math.round(seen.server), bytes: seen.weight, sent: seen.sent });
		if (path.startsWith("timeline")) {
			const [now, wide] = await page.evaluate(() => [document.querySelector("svg.time use").getBoundingClientRect(), innerWidth].map((r) => r.right || r));
			if (now > wide + 1) failed(path, kind, "does not open at now:", now, "of", wide);
		}
		if (kind !== "tablet" && (!most || path === "jobs")) await judge(page, `${path} ${kind}`);
		if (OUT) await page.screenshot({ path: `${OUT}/${JOBS}-${kind}-${path.replace(/\W+/g, "-").slice(0, 40) || "first"}.png` });
	}
	await page.context().close();
}

if (many && !most) {
	const page = await open({ viewport: { width: 1280, height: 900 } });

	// By keyboard: the first stop is the way to the content, and "/" goes to the filter.
	await arrive(page, "jobs");
	await page.keyboard.press("Tab");
	if (!(await page.evaluate(() => document.activeElement.matches(".skip")))) failed("the first stop is not the skip link");
	await page.keyboard.press("/");
	await page.keyboard.type("billing-export");
	await page.keyboard.press("Enter");
	await page.waitForURL(/q=billing-export/);
	if ((await page.locator("tbody tr").count()) !== 1) failed("the filter shows other jobs, too");

	// A click on a time explains the tick.
	await arrive(page, "timeline?span=15m&q=billing-export");
	const drawn = page.locator("svg.by-job").first();
	await drawn.click({ position: { x: 0.905 * (await drawn.boundingBox()).width, y: 9 } });
	await page.waitForURL(/at=/);
	await page.getByRole("heading", { name: "billing-export" }).waitFor();
	await page.locator("#why").waitFor();

	// What happens is seen without a reload; not while it is paused.
	await arrive(page, "instances");
	await page.evaluate(() => (window.same = true));
	await page.getByText("live", { exact: true }).waitFor();
	await page.getByRole("link", { name: "app-2" }).waitFor();
	await ask("kill app-2");
	await page.getByRole("link", { name: "app-2" }).waitFor({ state: "detached" });
	if (!(await page.evaluate(() => window.same))) failed("the page was loaded again");
	await page.getByRole("button", { name: "Pause updates" }).click();
	if ((await page.getByRole("button", { name: "Resume updates" }).getAttribute("aria-pressed")) !== "true") failed("not paused");

	// Actions: refused with a wrong token, and from another site; done with the right one.
	const act = async (token, back) => {
		await arrive(page, "job?name=search-reindex");
		if (token) {
			await page.getByLabel("Token").fill(token);
			await page.getByLabel("Your name").fill("ann");
		}
		await page.getByLabel("Reason").fill("a <b>test</b>");
		await page.getByRole("button", { name: "Pause", exact: true }).click();
		await page.waitForURL(back);
		return page.locator("main").innerText();
	};
	if (!/token is wrong/.test(await act("not-the-token-at-all", /pause$/))) failed("no refusal");
	const other = await open({});
	const trap = `<form method="post" action="${base}api/v1/jobs/search-reindex/pause"><input name="token" value="${TOKEN}"><input name="by" value="eve"><input name="reason" value="x"><button>go</button></form>`;
	await other.route("http://evil.example/", (route) => route.fulfill({ contentType: "text/html", body: trap }));
	await other.goto("http://evil.example/");
	const status = other.waitForResponse((r) => r.request().method() === "POST").then((r) => r.status());
	await other.getByRole("button").click();
	if ((await status) !== 403) failed("a form of another site:", await status);
	if ((await ask("paused search-reindex")) !== "") failed("it was paused by", await ask("paused search-reindex"));
	if (!/Paused: search-reindex/.test(await act(TOKEN, /job\?name=search-reindex$/))) failed("not paused");
	if ((await ask("paused search-reindex")) !== "ann (web, 127.0.0.1)") failed("it was paused by", await ask("paused search-reindex"));
	await judge(page, "after an action");

	// The token and the name are known now. What is selected is paused, and stays selected while the table is read again.
	await arrive(page, "jobs?q=task-00&sort=job");
	const boxes = page.locator('input[name="job"]');
	const names = await boxes.evaluateAll((all) => all.slice(0, 2).map((box) => box.value));
	await boxes.nth(0).check();
	await boxes.nth(1).check();
	await page.getByText("2 selected").waitFor();
	await page.getByLabel("Reason").fill("all of them");
	await page.getByRole("button", { name: "Pause", exact: true }).click();
	await page.getByText("Pause: 2 of 2 done").waitFor();
	for (const name of names) if ((await ask(`paused ${name}`)) !== "ann (web, 127.0.0.1)") failed(name, "is not paused");
	await page.locator("tbody tr", { hasText: names[0] }).getByText("paused", { exact: true }).waitFor();
	if ((await page.locator('input[name="job"]:checked').count()) !== 2) failed("the selection is lost");
	await judge(page, "after many actions");

	// Times are in the viewer's zone, unless they choose UTC.
	const far = await open({ timezoneId: "Asia/Tokyo" });
	await far.goto(base + "calendar");
	await far.getByText("in Asia/Tokyo").waitFor();
	await far.getByRole("button", { name: "UTC" }).click();
	await far.getByText("coming seven days, in UTC").waitFor();
	await far.goto(base + "jobs");
	await far.getByRole("button", { name: "Local time" }).waitFor();
}
await browser.close();
process.exit(0);
