// SPDX-License-Identifier: Apache-2.0
// Reads out the columns of a plot, under the pointer or by the arrow keys. Without it the plots and tables say as much.
"use strict";

for (const area of document.querySelectorAll(".area")) {
	const columns = JSON.parse(document.getElementById(area.dataset.columns).textContent);
	const readout = area.closest("figure").querySelector(".readout");
	const cursor = document.createElement("div");
	let at = -1;

	// An area of columns is read like a slider is moved: screen readers know how.
	area.tabIndex = 0;
	area.setAttribute("role", "slider");
	area.setAttribute("aria-label", `column of ${area.dataset.label} to read out`);
	area.setAttribute("aria-valuemin", "1");
	area.setAttribute("aria-valuemax", String(columns.length));
	cursor.className = "cursor";
	cursor.hidden = true;
	area.append(cursor);
	readout.textContent = "Point at the plot, or choose it and use the arrow keys.";
	readout.hidden = false;

	function show(index) {
		at = Math.max(0, Math.min(columns.length - 1, index));
		cursor.hidden = false;
		cursor.style.left = `${(100 * at) / columns.length}%`;
		cursor.style.width = `max(3px, ${100 / columns.length}%)`;
		readout.textContent = columns[at];
		area.setAttribute("aria-valuenow", String(at + 1));
		area.setAttribute("aria-valuetext", columns[at]);
	}

	area.addEventListener("pointermove", (event) => {
		const box = area.getBoundingClientRect();
		show(Math.floor(((event.clientX - box.left) / box.width) * columns.length));
	});
	area.addEventListener("keydown", (event) => {
		const page = Math.max(1, Math.round(columns.length / 10));
		const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -page, PageUp: page };
		if (event.key in steps) show(at + steps[event.key]);
		else if (event.key === "Home") show(0);
		else if (event.key === "End") show(columns.length - 1);
		else return;
		event.preventDefault();
	});
	area.setAttribute("aria-valuenow", "1");
	area.setAttribute("aria-valuetext", columns[0]);
}
