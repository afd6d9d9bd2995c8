// Measures the timeline of one scene in a browser: how long it takes until it is painted, at each zoom, by a click on it, and how long
// the browser is busy when it follows what happens. It prints one line of JSON each, of which those with "failed" fail the test.
import { createRequire } from "node:module";

const { URL: base, MODULES, CHROMIUM, OUT } = process.env;
const { chromium } = createRequire(`${MODULES}/`)("playwright-core");
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const patience = 60000;

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
context.setDefaultTimeout(patience);
const page = await context.newPage();
page.on("pageerror", (error) => say({ failed: error.message }));
// Tasks of more than 50 ms, in which the page does not answer.
await page.addInitScript(() => {
	window.longTasks = [];
	new PerformanceObserver((list) => list.getEntries().forEach((e) => window.longTasks.push(e.duration))).observe({ type: "longtask", buffered: true });
});

// report says what the page that has just been loaded took.
const report = async (what) => {
	await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
	const seen = await page.evaluate(() => {
		const load = performance.getEntriesByType("navigation")[0];
		return {
			paint_ms: Math.round(performance.getEntriesByName("first-contentful-paint")[0].startTime),
			server_ms: Math.round(load.responseEnd),
			bytes: load.decodedBodySize,
			sent: load.encodedBodySize,
			rows: document.querySelectorAll("svg.time").length,
			drawn: [...document.querySelectorAll("svg.time path")].reduce((sum, path) => sum + path.getAttribute("d").length, 0),
			long: window.longTasks.map(Math.round),
		};
	});
	if (seen.rows === 0) say({ failed: `${what}: nothing is drawn` });
	say({ zoom: what, ...seen });
};

await page.goto(`${base}timeline?span=15m`, { waitUntil: "load" });
await report("15m");
for (const span of ["1h", "6h", "24h", "7d", "28d", "24h", "15m"]) {
	await page.getByRole("navigation", { name: "Length of time" }).getByRole("link", { name: span, exact: true }).click();
	await page.waitForURL(new RegExp(`span=${span}`));
	await page.waitForLoadState("load");
	await report(span);
}
await page.goto(`${base}timeline?span=24h&by=instance`, { waitUntil: "load" });
await report("24h by instance");

// An update: the page reads itself again, and takes over what is new.
await page.goto(`${base}timeline?span=24h`, { waitUntil: "load" });
await page.getByText("live", { exact: true }).waitFor();
await page.evaluate(() => {
	window.longTasks.length = 0;
	window.updated = new Promise((done) => new MutationObserver(done).observe(document.querySelector('[data-live="timeline"]'), { subtree: true, attributes: true, childList: true, characterData: true }));
});
await page.evaluate(() => window.updated.then(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))));
say({ zoom: "an update", long: await page.evaluate(() => window.longTasks.map(Math.round)) });
if (OUT) await page.screenshot({ path: `${OUT}/timeline.png` });
await browser.close();
process.exit(0);
