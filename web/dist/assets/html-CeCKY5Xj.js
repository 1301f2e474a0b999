import{n as e,t}from"./channel-D4S0zGaT.js";var n=`<meta name="color-scheme" content="light dark"><style>
:root { color-scheme: light; } :root.dark { color-scheme: dark; }
html { font: 14px/1.5 system-ui, sans-serif; color: #1d2126; background: transparent; }
:root.dark { color: #e6e4df; } body { margin: 0; overflow-x: auto; }
table { border-collapse: collapse; } table.dataframe { border: 0; font-size: 13px; font-variant-numeric: tabular-nums; }
table.dataframe th, table.dataframe td { border: 0; padding: 3px 10px; text-align: right; vertical-align: top; }
table.dataframe tbody tr:nth-child(odd) { background: rgb(127 127 127 / .09); }
table.dataframe thead th { border-bottom: 1px solid rgb(127 127 127 / .5); }
img, svg, video { max-width: 100%; } a { color: #0b6e5f; } :root.dark a { color: #5fc9b5; }
</style>`,r=0;function i(){let t=Math.ceil(Math.max(document.documentElement.getBoundingClientRect().height,document.body?.scrollHeight??0));t!==r&&e({type:`size`,height:r=t})}t(e=>{e.type===`theme`&&document.documentElement.classList.toggle(`dark`,e.dark===!0),e.type===`show`&&typeof e.html==`string`&&(document.open(),document.write(`<!doctype html><html class="${e.dark?`dark`:``}"><head>${n}</head><body>${e.html}</body></html>`),document.close(),new ResizeObserver(i).observe(document.documentElement),t(e=>{e.type===`theme`&&document.documentElement.classList.toggle(`dark`,e.dark===!0)}),i())}),e({type:`ready`});