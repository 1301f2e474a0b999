// Builds the page into web/dist, which is committed and embedded in the binary. The same inputs give the
// same bytes on every machine: CI builds it again and compares (tools/web.sh --check).
import { defineConfig } from "vite";

export default defineConfig({
  base: "/",
  publicDir: false,
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: "es2022",
    sourcemap: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 6000,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: {
        index: "index.html",
        docs: "docs.html",
        html: "frames/html.html",
        live: "frames/live.html",
        chart: "frames/chart.html",
        terminal: "frames/terminal.html",
        pdf: "frames/pdf.html",
      },
    },
  },
  ssr: { noExternal: true }, // `npm test` runs elsewhere
  // For work on the page: `npm run dev` beside `glovebox serve`.
  server: {
    port: 5173,
    proxy: Object.fromEntries(
      ["/v1", "/api", "/auth", "/admin/v1", "/health", "/metrics", "/openapi.json"].map((path) => [
        path,
        { target: "http://127.0.0.1:8080", ws: true, headers: { origin: "http://127.0.0.1:8080" } },
      ]),
    ),
  },
});
