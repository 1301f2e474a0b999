// The first cell of a new notebook: something to run at once, with what the box has.
import { get } from "../api";
import { wishes, type Template } from "./box";

const PLOTLY = `import numpy as np
import plotly.express as px

# A random walk. Change the seed and run again.
walk = np.random.default_rng(7).normal(size=500).cumsum()
px.line(y=walk, title="A random walk in a sealed box")`;

const MATPLOTLIB = `import matplotlib.pyplot as plt
import numpy as np

# A random walk. Change the seed and run again.
walk = np.random.default_rng(7).normal(size=500).cumsum()
plt.plot(walk)
plt.title("A random walk in a sealed box")
plt.show()`;

const PLAIN = `from collections import Counter

# The letters of a text. Change it and run again.
text = "Nothing in this box can reach your machine."
Counter(text.lower()).most_common(5)`;

export async function exampleCode(): Promise<string> {
  try {
    const { templates } = await get<{ templates: Template[] }>("/v1/templates", AbortSignal.timeout(3000));
    const template = templates.find((one) => one.name === wishes.get().template) ?? templates.find((one) => one.default);
    const has = (name: string) => template?.packages.some((one) => one.name.toLowerCase() === name) ?? false;
    if (has("numpy") && has("plotly")) return PLOTLY;
    return has("numpy") && has("matplotlib") ? MATPLOTLIB : PLAIN;
  } catch {
    return PLAIN; // the server is away, or wants to know who asks
  }
}
