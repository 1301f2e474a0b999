// The keys, as in other notebooks.
import { Dialog } from "../ui/parts";

const GROUPS: [string, [string, string][]][] = [
  ["Everywhere", [
    ["Shift+Enter", "run the cell and go to the next"],
    ["Ctrl+Enter", "run the cell and stay"],
    ["Alt+Enter", "run the cell and insert one below"],
    ["Ctrl+S", "store the notebook now (it is stored by itself)"],
  ]],
  ["In the text of a cell", [
    ["Esc", "leave the text; then Tab moves through the page"],
    ["Tab", "complete after a name, in a key or a path; otherwise indent"],
    ["Shift+Tab", "help about what is before the cursor; at the start of a line, unindent"],
    ["Ctrl+Shift+-", "split the cell here"],
    ["↑ ↓ at the edge", "go to the cell above or below"],
  ]],
  ["In a terminal", [
    ["Ctrl+Shift+L", "leave the terminal, to its tab"],
    ["Ctrl+Shift+C", "copy what is selected"],
  ]],
  ["On a selected cell", [
    ["Enter", "edit the text"],
    ["↑ ↓ or k j", "select the cell above or below"],
    ["a, b", "insert a cell above, below"],
    ["d d", "delete the cell"],
    ["z", "undo the deletion"],
    ["m, y", "change to Markdown, to code"],
    ["c", "duplicate the cell"],
    ["Shift+M", "join with the cell below"],
    ["Alt+↑ ↓", "move the cell"],
    ["i i", "interrupt"],
    ["0 0", "restart the interpreter"],
    ["o", "hide or show the panels"],
    ["h or ?", "this list"],
  ]],
];

export default function KeysDialog({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Keys" onClose={onClose} wide>
      <div class="keys">
        {GROUPS.map(([title, list]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>{list.map(([key, what]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
