// Draws the charts of a page with uPlot. The values are embedded in the page; each refresh of the part replaces them.
// Without scripts, the page shows SVG lines instead.
"use strict";

(() => {
  const library = document.currentScript.dataset.library;
  const HEIGHT = 190;
  const COLORS = 9;
  const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]];
  const plots = new Map(); // by chart key: plot, and the labels for which the plot was created
  const minutes = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
  const seconds = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });

  // uPlot creates a number format for the browser's language when it is loaded, and fails if the language is invalid.
  function ensureValidLanguage() {
    try {
      new Intl.NumberFormat(navigator.language);
    } catch {
      Object.defineProperty(navigator, "language", { value: "en", configurable: true });
    }
  }

  function load() {
    ensureValidLanguage();
    const script = document.createElement("script");
    script.src = library;
    script.addEventListener("load", draw);
    document.head.append(script);
  }

  function formatValue(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit !== "ms") return Math.abs(value) < 10000 ? String(Number(value.toPrecision(value < 1 ? 2 : 4))) : compact.format(value);
    return value < 1000 ? `${compact.format(value)} ms` : `${compact.format(value / 1000)} s`;
  }

  // Ticks less than a minute apart require seconds.
  function formatTick(tick, ticks) {
    const needsSeconds = ticks.length > 1 && ticks[1] - ticks[0] < 60;
    return (needsSeconds ? seconds : minutes).format(new Date(tick * 1000));
  }

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // Adds to each line of a stack the values of the lines below it.
  function stacked(lines) {
    const sums = lines[0].values.map(() => 0);
    return lines.map((line) =>
      line.values.map((value, index) => {
        if (lines.every((other) => other.values[index] === null)) return null;
        sums[index] += value ?? 0;
        return sums[index];
      }),
    );
  }

  // Indexes of values without neighbors, which no line connects.
  function isolatedIndexes(plot, series) {
    const values = plot.data[series];
    const hasValue = (index) => values[index] !== null && values[index] !== undefined;
    const isIsolated = (index) => hasValue(index) && !hasValue(index - 1) && !hasValue(index + 1);
    return values.map((_, index) => index).filter(isIsolated);
  }

  function buildSeries(chart, line, index) {
    const tone = color(`--chart-${index % COLORS}`);
    return {
      label: line.label,
      stroke: tone,
      width: index === 0 || chart.stacked ? 2 : 1.25,
      dash: chart.stacked ? [] : DASHES[index % DASHES.length],
      fill: chart.stacked ? `${tone}33` : undefined,
      points: { show: true, size: 5, fill: tone, filter: isolatedIndexes },
    };
  }

  function options(chart, width) {
    const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
    return {
      width,
      height: HEIGHT,
      padding: [8, 12, 0, 0],
      series: [{}, ...chart.lines.map((line, index) => buildSeries(chart, line, index))],
      bands: chart.stacked ? chart.lines.slice(1).map((_, index) => ({ series: [index + 2, index + 1] })) : [],
      scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] } },
      axes: [
        { ...axis, size: 30, space: 70, values: (_, ticks) => ticks.map((tick) => formatTick(tick, ticks)) },
        { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => formatValue(tick, chart.unit)) },
      ],
      cursor: { drag: { x: false, y: false }, points: { size: 7 } },
      legend: { show: false },
      hooks: { setCursor: [(plot) => showValuesAtCursor(plot, chart.unit)] },
    };
  }

  // The table shows the values at the cursor, or the latest values without a cursor.
  function showValuesAtCursor(plot, unit) {
    const figure = plot.root.closest("figure");
    if (!figure) return;
    const index = plot.cursor.idx;
    const cells = [figure.querySelector("[data-at]"), ...figure.querySelectorAll("[data-value]")];
    cells.forEach((cell, row) => {
      if (cell.dataset.latest === undefined) cell.dataset.latest = cell.textContent;
      if (index === null || index === undefined) cell.textContent = cell.dataset.latest;
      else if (row === 0) cell.textContent = seconds.format(new Date(plot.data[0][index] * 1000));
      else cell.textContent = formatValue(plot.lines[row - 1].values[index], unit);
    });
  }

  function drawChart(figure, chart, times) {
    const container = figure.querySelector(".plot");
    const labels = [chart.stacked, ...chart.lines.map((line) => line.label)].join("\n");
    const data = [times, ...(chart.stacked ? stacked(chart.lines) : chart.lines.map((line) => line.values))];
    let entry = plots.get(chart.key);
    if (entry && entry.labels !== labels) {
      entry.plot.destroy();
      entry = undefined;
    }
    figure.classList.add("drawn");
    if (entry) {
      container.append(entry.plot.root);
      entry.plot.lines = chart.lines;
      entry.plot.setData(data);
      return;
    }
    const plot = new uPlot(options(chart, container.clientWidth), data, (self, init) => {
      self.lines = chart.lines;
      self.root.dataset.stacked = chart.stacked;
      container.append(self.root);
      init();
    });
    plots.set(chart.key, { plot, labels });
  }

  function draw() {
    const chartData = document.querySelector("[data-charts]");
    if (!chartData) return;
    if (!window.uPlot) return;
    const { start_ms: start, step_ms: step, charts } = JSON.parse(chartData.dataset.charts);
    const count = Math.max(...charts.map((chart) => chart.lines[0].values.length));
    const times = Array.from({ length: count }, (_, index) => (start + index * step) / 1000);
    for (const chart of charts) {
      const figure = chartData.querySelector(`[data-chart="${chart.key}"]`);
      if (figure) drawChart(figure, chart, times);
    }
  }

  function fit() {
    for (const { plot } of plots.values()) {
      const width = plot.root.parentElement ? plot.root.parentElement.clientWidth : 0;
      if (width && width !== plot.width) plot.setSize({ width, height: HEIGHT });
    }
  }

  document.body.addEventListener("htmx:afterSwap", draw);
  window.addEventListener("resize", fit);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    plots.forEach(({ plot }) => plot.destroy());
    plots.clear();
    draw();
  });
  load();
})();
