
"use strict";
(() => {
  const data = document.getElementById("charts");
  const charts = data ? JSON.parse(data.textContent) : [];
  for (const place of document.querySelectorAll("[data-chart]")) {
    const spec = charts[Number(place.dataset.chart)];
    const fail = () => {
      place.className = "chart failed";
      place.textContent = "This chart cannot be drawn here; its data is below.";
    };
    try {
      const config = { displaylogo: false, responsive: true, plotlyServerURL: "" };
      const layout = { ...spec.layout, autosize: true };
      Plotly.newPlot(place, { data: spec.data, layout, frames: spec.frames, config }).catch(fail);
    } catch (error) {
      fail();
    }
  }
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details")) details.open = true;
  });
})();
