// The sample data, for people who want to look before they bring their own. Loaded when somebody asks for it.
import sales from "../../../examples/sales.csv?raw";

export const sampleFile = (): File => new File([sales], "sales.csv", { type: "text/csv" });
