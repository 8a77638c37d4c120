// Draws the charts of a report page and makes its tables sortable and filterable.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("charts").textContent);
  const palette = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948",
    "#9c755f", "#ff9da7", "#6b6ecf", "#8cd17d", "#bab0ac"];

  // ---- Quantities. Axes count in one unit, texts choose their own.
  const units = {
    number: [[1, ""]],
    seconds: [[86400, "days", 2], [3600, "h", 2], [60, "min", 10], [1, "s", 1], [1e-3, "ms", 1], [1e-6, "µs", 1]],
    bytes: [[2 ** 40, "TiB", 1], [2 ** 30, "GiB", 1], [2 ** 20, "MiB", 1], [2 ** 10, "KiB", 1], [1, "B", 1]],
  };
  const unitFor = (quantity, value) => {
    const list = units[quantity];
    return list.find(([factor, , least]) => Math.abs(value) >= factor * (least || 1)) || list[list.length - 1];
  };
  const digits = (value) => value === 0 ? "0" :
    Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(4)));
  const shown = (quantity, value) => {
    const [factor, name] = unitFor(quantity, value);
    return digits(value / factor) + (name ? " " + name : "");
  };

  // ---- Charts.
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const paper = () => window.matchMedia("print").matches;
  const largest = (chart, axis) => {
    let most = 0;
    const sums = new Map();
    for (const series of chart.series)
      for (const point of series.points) {
        if (chart.kind === "bars") {
          sums.set(point.x, (sums.get(point.x) || 0) + point.y);
          most = Math.max(most, sums.get(point.x));
        } else {
          most = Math.max(most, Math.abs(point[axis]));
        }
      }
    return most;
  };

  function axisOf(chart, axis, unit) {
    const spec = chart[axis];
    const title = unit[1] ? `${spec.title} (${unit[1]})` : spec.title;
    return {
      type: spec.logarithmic ? "logarithmic" : "linear",
      beginAtZero: spec.from_zero,
      grid: { color: css("--line"), borderColor: css("--line") },
      title: { display: true, text: title, color: css("--soft") },
      ticks: { color: css("--soft"), callback: (value) => digits(value), maxTicksLimit: 9 },
    };
  }

  // Limits, the diagonal and 90 % intervals, which Chart.js does not draw itself.
  const extras = (above) => ({
    id: "extras",
    [above](view) {
      const { ctx, chartArea: area, scales } = view;
      const chart = view.config.options.source;
      ctx.save();
      ctx.strokeStyle = css("--bad");
      ctx.fillStyle = css("--bad");
      ctx.font = "11px system-ui, sans-serif";
      ctx.setLineDash([5, 4]);
      view.limits.forEach((limit, index) => {
        const scale = scales[limit.scale];
        const at = scale.getPixelForValue(limit.value);
        const vertical = scale.isHorizontal();
        if (vertical ? at < area.left || at > area.right + 1 : at < area.top - 1 || at > area.bottom) return;
        ctx.beginPath();
        if (vertical) { ctx.moveTo(at, area.top); ctx.lineTo(at, area.bottom); }
        else { ctx.moveTo(area.left, at); ctx.lineTo(area.right, at); }
        ctx.stroke();
        const width = ctx.measureText(limit.name).width;
        // Names of upright lines stand above the plane, one below the other.
        if (vertical)
          ctx.fillText(limit.name, Math.max(0, Math.min(at - width / 2, view.width - width)), area.top - 4 - 13 * index);
        else
          ctx.fillText(limit.name, area.right - width - 4, at - 4);
      });
      ctx.setLineDash([]);
      if (chart.diagonal) {
        const low = Math.max(scales.x.min, scales.y.min), high = Math.min(scales.x.max, scales.y.max);
        ctx.strokeStyle = css("--soft");
        ctx.beginPath();
        ctx.moveTo(scales.x.getPixelForValue(low), scales.y.getPixelForValue(low));
        ctx.lineTo(scales.x.getPixelForValue(high), scales.y.getPixelForValue(high));
        ctx.stroke();
      }
      ctx.beginPath();
      ctx.rect(area.left, area.top, area.right - area.left, area.bottom - area.top);
      ctx.clip();
      for (const set of view.data.datasets)
        for (const point of set.data) {
          ctx.strokeStyle = set.borderColor;
          ctx.globalAlpha = 0.55;
          for (const axis of ["x", "y"]) {
            const ends = point[axis + "_ends"];
            if (!ends) continue;
            const other = axis === "x" ? "y" : "x";
            const fixed = scales[other].getPixelForValue(point[other]);
            const [a, b] = ends.map((value) => scales[axis].getPixelForValue(value));
            ctx.beginPath();
            if (axis === "x") { ctx.moveTo(a, fixed); ctx.lineTo(b, fixed); }
            else { ctx.moveTo(fixed, a); ctx.lineTo(fixed, b); }
            ctx.stroke();
          }
        }
      ctx.restore();
    },
  });

  const uprights = (chart, lying) => chart.limits.filter((limit) => lying || limit.of_x).length;
  const common = (chart, lying) => ({
    layout: { padding: { top: 6 + 13 * uprights(chart, lying) } },
    source: chart, animation: false, responsive: true, maintainAspectRatio: false,
    plugins: {
      legend: { position: "bottom", labels: { color: css("--text"), boxWidth: 12, boxHeight: 12, padding: 10 } },
    },
  });

  function barsConfig(chart, unit) {
    const lying = chart.categories.length <= 12;
    const value = lying ? "x" : "y", place = lying ? "y" : "x";
    const options = common(chart, lying);
    options.indexAxis = place;
    options.scales = {
      [value]: { ...axisOf(chart, "y", unit), stacked: true },
      [place]: { stacked: true, grid: { display: false }, ticks: { color: css("--text"), autoSkip: !lying } },
    };
    const limits = chart.limits.map((limit) => limit.value / unit[0]);
    if (limits.length) options.scales[value].suggestedMax = Math.max(...limits) * 1.02;
    options.interaction = { mode: "nearest", intersect: true };
    options.plugins.tooltip = { callbacks: {
      label: (item) => `${item.dataset.label}: ${shown(chart.y.quantity, item.raw * unit[0])}`,
      footer: (items) => {
        const sum = chart.series.reduce((total, series) => total + (series.points[items[0].dataIndex] || { y: 0 }).y, 0);
        return `all together: ${shown(chart.y.quantity, sum)}`;
      },
    } };
    const datasets = chart.series.map((series, index) => ({
      label: series.name, data: series.points.map((point) => point.y / unit[0]),
      backgroundColor: palette[index % palette.length], borderColor: css("--card"), borderWidth: 0.5,
      maxBarThickness: 34,
    }));
    return { type: "bar", data: { labels: chart.categories, datasets }, options, plugins: [extras("afterDatasetsDraw")] };
  }

  function seriesStyle(series, index, chart) {
    const faint = chart.series[0].mark === "faint" ? 1 : 0;
    const color = { faint: css("--soft"), strong: css("--bad") }[series.mark] || palette[(index - faint + palette.length) % palette.length];
    const style = { borderColor: color, backgroundColor: color, pointRadius: 5, pointHoverRadius: 7, showLine: false };
    if (series.mark === "faint")
      Object.assign(style, { backgroundColor: color + "66", borderWidth: 0, order: 9,
        pointRadius: series.points.map((point) => 2 + Math.min(4, Math.log2(point.stands_for || 1) / 2)) });
    // Few faint points beside a line are what it is held against.
    if (series.mark === "faint" && chart.series.some((other) => other.mark === "line"))
      Object.assign(style, { showLine: true, borderWidth: 1.5, borderDash: [5, 4], pointRadius: 0 });
    if (series.mark === "strong") Object.assign(style, { pointStyle: "rectRot", pointRadius: 8, pointHoverRadius: 9, order: 1 });
    if (series.mark === "line") Object.assign(style, { showLine: true, borderWidth: 2, pointRadius: 3.5, order: 6 });
    return style;
  }

  function planeConfig(chart, xUnit, yUnit) {
    const options = common(chart, false);
    options.scales = { x: axisOf(chart, "x", xUnit), y: axisOf(chart, "y", yUnit) };
    for (const axis of ["x", "y"]) {
      const unit = axis === "x" ? xUnit : yUnit;
      const most = largest(chart, axis);
      for (const limit of chart.limits)
        if (limit.of_x === (axis === "x") && limit.value < 2.5 * most)
          options.scales[axis].suggestedMax = Math.max(options.scales[axis].suggestedMax || 0, limit.value / unit[0] * 1.02);
    }
    options.interaction = { mode: "nearest", intersect: true };
    options.plugins.legend.labels.usePointStyle = true;
    options.plugins.tooltip = { callbacks: {
      title: () => "",
      label: (item) => {
        const point = item.raw.of, lines = [item.dataset.label + (point.label ? ": " + point.label : "")];
        for (const axis of ["y", "x"]) {
          const ends = point[axis + "_interval"];
          lines.push(`${chart[axis].title}: ${shown(chart[axis].quantity, point[axis])}` +
            (ends ? ` (${shown(chart[axis].quantity, ends[0])} to ${shown(chart[axis].quantity, ends[1])})` : ""));
        }
        if (point.stands_for > 1) lines.push(`the fastest of ${digits(point.stands_for)} plans alike`);
        return lines;
      },
    } };
    const datasets = chart.series.map((series, index) => ({
      label: series.name, ...seriesStyle(series, index, chart),
      data: series.points.map((point) => ({
        of: point, x: point.x / xUnit[0], y: point.y / yUnit[0],
        x_ends: point.x_interval && point.x_interval.map((value) => value / xUnit[0]),
        y_ends: point.y_interval && point.y_interval.map((value) => value / yUnit[0]),
      })),
    }));
    // Intervals belong into the picture, too.
    for (const axis of ["x", "y"])
      for (const set of datasets)
        for (const point of set.data)
          if (point[axis + "_ends"]) {
            const scale = options.scales[axis], [low, high] = point[axis + "_ends"];
            scale.suggestedMin = Math.min(scale.suggestedMin ?? low, low);
            scale.suggestedMax = Math.max(scale.suggestedMax ?? high, high);
          }
    return { type: "scatter", data: { datasets }, options, plugins: [extras("beforeDatasetsDraw")] };
  }

  function draw(canvas) {
    const chart = data[Number(canvas.dataset.chart)];
    const yUnit = unitFor(chart.y.quantity, largest(chart, "y"));
    const xUnit = unitFor(chart.x.quantity, chart.kind === "bars" ? 1 : largest(chart, "x"));
    const config = chart.kind === "bars" ? barsConfig(chart, yUnit) : planeConfig(chart, xUnit, yUnit);
    const value = config.options.indexAxis === "y" ? "x" : "y";
    config.plugins.unshift({ id: "limits", beforeInit(view) {
      view.limits = chart.limits.map((limit) => chart.kind === "bars"
        ? { name: limit.name, value: limit.value / yUnit[0], scale: value }
        : { name: limit.name, value: limit.value / (limit.of_x ? xUnit : yUnit)[0], scale: limit.of_x ? "x" : "y" });
    } });
    const view = new Chart(canvas, config);
    // How much was really drawn, for tests and for the curious.
    let marks = 0;
    view.data.datasets.forEach((set, index) => {
      for (const element of view.getDatasetMeta(index).data)
        if (Number.isFinite(element.x) && Number.isFinite(element.y)) ++marks;
    });
    canvas.dataset.marks = marks;
    return view;
  }

  let views = [];
  function drawAll() {
    for (const view of views) view.destroy();
    Chart.defaults.font.family = 'system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';
    views = Array.from(document.querySelectorAll("canvas[data-chart]"), draw);
  }

  // ---- Tables.
  const factors = { ms: 1e-3, "µs": 1e-6, s: 1, min: 60, h: 3600, days: 86400, B: 1, KiB: 2 ** 10,
    MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };
  const counts = { M: 1e6, B: 1e9, T: 1e12 };
  function numberOf(text, bytes) {
    const found = /^[~+]?(-?[\d.,]+(?:e[+-]?\d+)?)\s*([^\s\d]*)/i.exec(text.trim());
    if (!found) return NaN;
    const table = bytes ? factors : { ...factors, ...counts };
    return Number(found[1].replaceAll(",", "")) * (table[found[2]] ?? 1);
  }
  function sortBy(table, column, head) {
    const ascending = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const bodies = Array.from(table.tBodies);
    const texts = bodies.map((body) => body.rows[0].cells[column].textContent.trim());
    const bytes = texts.some((text) => /[KMGT]iB$/.test(text));
    const numbers = texts.map((text) => numberOf(text, bytes));
    const numeric = numbers.some((number) => !Number.isNaN(number));
    const order = bodies.map((_, index) => index).sort((a, b) => {
      let less;
      if (numeric) {
        // What has no number stays behind, whatever the direction.
        if (Number.isNaN(numbers[a]) || Number.isNaN(numbers[b])) return Number.isNaN(numbers[a]) - Number.isNaN(numbers[b]);
        less = numbers[a] - numbers[b];
      } else {
        less = texts[a].localeCompare(texts[b], "en", { numeric: true });
      }
      return ascending ? less : -less;
    });
    table.append(...order.map((index) => bodies[index]));
  }
  function equip(table) {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      if (!head.textContent) head.textContent = "#";
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sortBy(table, column, head));
      head.append(button);
    });
    if (table.tBodies.length < 6 || table.querySelector(".bars")) return;
    const filter = document.createElement("input");
    filter.type = "search";
    filter.className = "filter";
    filter.placeholder = "show only rows with …";
    filter.setAttribute("aria-label", "show only rows with this text");
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase();
      for (const body of table.tBodies) body.hidden = !body.textContent.toLowerCase().includes(wanted);
    });
    table.parentElement.before(filter);
  }

  // The numbers behind a chart, built when they are asked for.
  function numbersTable(chart) {
    const table = document.createElement("table");
    const bars = chart.kind === "bars";
    const titles = bars ? [chart.x.title || "what", "part", chart.y.title] : ["series", chart.x.title, chart.y.title, "what", "plans"];
    const row = table.createTHead().insertRow();
    for (const title of titles) row.appendChild(document.createElement("th")).textContent = title;
    for (const series of chart.series)
      for (const point of series.points) {
        const cells = bars
          ? [chart.categories[point.x], series.name, shown(chart.y.quantity, point.y)]
          : [series.name, shown(chart.x.quantity, point.x), shown(chart.y.quantity, point.y), point.label || "", digits(point.stands_for || 1)];
        const line = table.createTBody().insertRow();
        for (const cell of cells) line.insertCell().textContent = cell;
      }
    return table;
  }
  for (const details of document.querySelectorAll("details[data-chart]"))
    details.addEventListener("toggle", () => {
      if (details.querySelector("table")) return;
      const scroll = document.createElement("div");
      scroll.className = "scroll";
      const table = numbersTable(data[Number(details.dataset.chart)]);
      scroll.append(table);
      details.append(scroll);
      equip(table);
    });

  for (const table of document.querySelectorAll("table")) equip(table);
  drawAll();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  window.addEventListener("beforeprint", drawAll);
  window.addEventListener("afterprint", drawAll);
  document.documentElement.dataset.drawn = String(views.length);
})();
