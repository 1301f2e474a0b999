declare module "plotly.js-strict-dist-min" {
  const Plotly: {
    react(root: HTMLElement, data: any, layout: any, config: any): Promise<void>;
    toImage(figure: any, options: any): Promise<string>;
  };
  export default Plotly;
}
declare module "pdfjs-dist/build/pdf.worker.mjs";
