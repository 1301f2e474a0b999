// Icons: strokes on a 24 by 24 grid, in the colour of the text. They are decoration; the button has the words.
const PATHS = {
  add: "M12 5v14M5 12h14",
  box: "M4 7l8-4 8 4v10l-8 4-8-4zM4 7l8 4 8-4M12 11v10",
  chart: "M4 20V10M10 20V4M16 20v-7M21 20H3",
  chat: "M4 5h16v11H9l-5 4z",
  check: "M5 12.5l4.5 4.5L19 7.5",
  chevron: "M9 6l6 6-6 6",
  close: "M6 6l12 12M18 6L6 18",
  code: "M8 7l-5 5 5 5M16 7l5 5-5 5",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  database: "M5 6c0-1.7 3.1-3 7-3s7 1.3 7 3-3.1 3-7 3-7-1.3-7-3zM5 6v12c0 1.7 3.1 3 7 3s7-1.3 7-3V6M5 12c0 1.7 3.1 3 7 3s7-1.3 7-3",
  docs: "M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h7",
  down: "M12 4v12M6 11l6 6 6-6M5 21h14",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  eye: "M2 12s4-7 10-7 10 7 10 7-4 7-10 7S2 12 2 12zM12 9a3 3 0 100 6 3 3 0 000-6z",
  file: "M6 3h8l4 4v14H6zM13 3v5h5",
  folder: "M3 6h6l2 2h10v11H3z",
  gauge: "M4 18a9 9 0 1116 0M12 15l4-5",
  key: "M8 15a4 4 0 110-8 4 4 0 010 8zM12 11h9v4M17 11v3",
  link: "M10 14a4 4 0 005.7 0l3-3a4 4 0 00-5.7-5.7l-1 1M14 10a4 4 0 00-5.7 0l-3 3a4 4 0 005.7 5.7l1-1",
  menu: "M4 6h16M4 12h16M4 18h16",
  moon: "M20 14.5A8.5 8.5 0 119.5 4a7 7 0 0010.5 10.5z",
  more: "M5 11.3a.7.7 0 100 1.4.7.7 0 000-1.4zM12 11.3a.7.7 0 100 1.4.7.7 0 000-1.4zM19 11.3a.7.7 0 100 1.4.7.7 0 000-1.4z",
  package: "M4 7l8-4 8 4v10l-8 4-8-4zM8 5l8 4",
  paperclip: "M20 11l-8.5 8.5a5 5 0 01-7-7L13 4a3.3 3.3 0 014.7 4.7l-8.3 8.4a1.7 1.7 0 01-2.4-2.4L14.5 7",
  play: "M7 4l13 8-13 8z",
  refresh: "M20 11a8 8 0 10-2.3 6.3M20 5v6h-6",
  search: "M11 4a7 7 0 100 14 7 7 0 000-14zM16 16l5 5",
  send: "M4 12l16-8-6 16-3-7z",
  settings: "M12 9a3 3 0 100 6 3 3 0 000-6zM4 12h2M18 12h2M12 4v2M12 18v2M6.3 6.3l1.5 1.5M16.2 16.2l1.5 1.5M17.7 6.3l-1.5 1.5M7.8 16.2l-1.5 1.5",
  share: "M12 15V4M8 8l4-4 4 4M5 12v8h14v-8",
  stop: "M6 6h12v12H6z",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v2M12 20v2M2 12h2M20 12h2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 1.4M19.1 4.9l-1.4 1.4M6.3 17.7l-1.4 1.4",
  table: "M4 5h16v14H4zM4 10h16M4 15h16M10 5v14",
  terminal: "M4 5h16v14H4zM7 9l3 3-3 3M13 15h4",
  "thumb-down": "M7 14V4h9l3 8v2h-6l1 5-2 2-5-7zM7 4H4v10h3",
  "thumb-up": "M7 10v10h9l3-8v-2h-6l1-5-2-2-5 7zM7 20H4V10h3",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  up: "M12 20V8M6 13l6-6 6 6M5 3h14",
  user: "M12 4a4 4 0 100 8 4 4 0 000-8zM4 21c0-4 3.6-7 8-7s8 3 8 7",
  users: "M9 5a3.5 3.5 0 100 7 3.5 3.5 0 000-7zM2 20c0-3.5 3-6 7-6s7 2.5 7 6M16 5.5a3.5 3.5 0 010 6.5M18 14.5c2.4.8 4 2.8 4 5.5",
  warning: "M12 3l10 18H2zM12 10v5M12 18h.01",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.7"
      stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
