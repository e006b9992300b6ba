// SPDX-License-Identifier: Apache-2.0
// Looks at a report from inside the browser, as its last script, and leaves what it found as JSON in an element.
"use strict";

function channel(value) {
	const c = value / 255;
	return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
}

function colour(text) {
	const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
	return { r, g, b, a };
}

function luminance({ r, g, b }) {
	return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
}

function ground(element) {
	for (let e = element; e; e = e.parentElement) {
		const found = colour(getComputedStyle(e).backgroundColor);
		if (found.a > 0) return found;
	}
	return { r: 255, g: 255, b: 255, a: 1 };
}

// The least contrast of any text, and of which.
function leastContrast() {
	let least = { ratio: 21, text: "" };
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node = walker.nextNode(); node; node = walker.nextNode()) {
		const element = node.parentElement;
		if (!node.textContent.trim() || !element.getClientRects().length) continue;
		const pair = [luminance(colour(getComputedStyle(element).color)), luminance(ground(element))];
		const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
		if (ratio < least.ratio) least = { ratio, text: node.textContent.trim().slice(0, 60) };
	}
	return least;
}

function press(area, key) {
	area.focus();
	area.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
	return area.closest("figure").querySelector(".readout").textContent;
}

function reading(area) {
	return {
		figure: area.closest("figure").id,
		focused: (area.focus(), document.activeElement === area),
		columns: Number(area.getAttribute("aria-valuemax")),
		first: press(area, "Home"),
		second: press(area, "ArrowRight"),
		last: press(area, "End"),
		spoken: area.getAttribute("aria-valuetext"),
	};
}

function rows(table) {
	return [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
}

const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
const found = {
	problems: window.problems,
	loaded: performance.getEntriesByType("resource").map((e) => e.name),
	dark: matchMedia("(prefers-color-scheme: dark)").matches,
	width: document.documentElement.clientWidth,
	overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
	contrast: leastContrast(),
	idsTwice: ids.filter((id, i) => ids.indexOf(id) !== i),
	namelessPictures: [...document.querySelectorAll("svg")].filter((e) => !e.closest("[aria-hidden]") && !e.getAttribute("aria-label")).length,
	images: document.querySelectorAll("img, iframe, object, embed, link:not([href^='data:'])").length,
	figures: [...document.querySelectorAll("figure")].map((e) => e.id),
	tiles: [...document.querySelectorAll(".tiles li")].map((e) => e.innerText),
	index: [...document.querySelectorAll(".index li")].map((e) => ({ text: e.textContent, bad: e.className, leads: !!document.querySelector(e.querySelector("a").getAttribute("href")) })),
	story: [...document.querySelectorAll(".story li")].map((e) => e.textContent),
	summary: [...document.querySelectorAll(".summary span")].map((e) => e.textContent),
	readings: [...document.querySelectorAll(".area")].map(reading),
	tables: Object.fromEntries([...document.querySelectorAll(".scroll")].map((e) => [e.getAttribute("aria-label"), rows(e.querySelector("table"))])),
};
const element = document.createElement("pre");
element.id = "probe";
element.textContent = JSON.stringify(found).replaceAll("&", "\\u0026").replaceAll("<", "\\u003c").replaceAll(">", "\\u003e");
document.body.append(element);
