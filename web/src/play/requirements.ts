// What people write into the field "Install packages", as a list of requirements.

// A name, perhaps with extras, and perhaps with versions: `pandas >= 2, < 3`.
const ONE = /[\w.-]+(?:\s*\[[^\]]*\])?(?:\s*(?:[<>!~=]=?=?)\s*[\w.*+!-]+(?:\s*,\s*(?:[<>!~=]=?=?)\s*[\w.*+!-]+)*)?/y;

/** Several on one line are told apart by spaces or commas; a line with an address or a marker is one requirement. */
export function requirementsOf(text: string): string[] {
  const list: string[] = [];
  for (const raw of text.split("\n")) {
    const line = raw.replace(/^\s*(?:[!%]\s*)?(?:python3?\s+-m\s+)?pip3?\s+install\s+/, "").trim();
    if (/[@;]/.test(line)) {
      list.push(line);
      continue;
    }
    for (let at = 0; at < line.length; ) {
      ONE.lastIndex = at;
      const found = ONE.exec(line)?.[0];
      if (found) list.push(found.replace(/\s+/g, ""));
      else if (!/[\s,]/.test(line[at]!)) {
        list.push(line.slice(at).trim()); // the server says what is wrong with it
        break;
      }
      at += found?.length ?? 1;
    }
  }
  return list;
}
