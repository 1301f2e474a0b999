// Markdown that a model or a file wrote, as HTML that can do no harm. Loaded when it is first needed.
//
// marked renders, DOMPurify removes everything but a short list of elements and attributes, and the page's
// policy would not run or load what slipped through. Pictures from elsewhere are not shown: their
// address could carry what the model saw. Links open a new tab, without a referrer.
import DOMPurify from "dompurify";
import { Marked } from "marked";

const marked = new Marked({ gfm: true, breaks: false, async: false });

const ELEMENTS = [
  "a", "abbr", "b", "blockquote", "br", "code", "dd", "del", "details", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4",
  "h5", "h6", "hr", "i", "img", "kbd", "li", "ol", "p", "pre", "s", "small", "span", "strong", "sub", "summary", "sup",
  "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul",
];

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A") {
    const href = node.getAttribute("href") ?? "";
    if (!/^(https?:|mailto:|#)/i.test(href)) node.removeAttribute("href");
    else {
      node.setAttribute("target", "_blank");
      node.setAttribute("rel", "noopener noreferrer nofollow");
      if (!node.getAttribute("title")) node.setAttribute("title", href);
    }
  }
  if (node.nodeName === "IMG" && !/^data:image\/(png|jpeg|gif|webp);base64,/i.test(node.getAttribute("src") ?? "")) {
    const text = document.createElement("span");
    text.textContent = `[picture: ${node.getAttribute("alt") || node.getAttribute("src") || "without a name"}]`;
    node.replaceWith(text);
  }
});

// Stories of Mark: HTML in them is text, as in exports; only line breaks count, which tables need.
const escaped = (text: string): string => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const plain = new Marked({ gfm: true, breaks: false, async: false, renderer: { html: ({ text }) => (/^<br\s*\/?>$/i.test(text.trim()) ? "<br>" : escaped(text)) } });

/** A story of Mark as sanitized HTML. */
export const renderStory = (text: string): string => sanitized(plain.parse(text) as string);

/** Sanitized HTML, as TrustedHTML where the browser has that. */
export const renderMarkdown = (text: string): string => sanitized(marked.parse(text) as string);

function sanitized(html: string): string {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS: ELEMENTS,
    ALLOWED_ATTR: ["href", "title", "alt", "src", "align", "colspan", "rowspan", "start", "open"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_TRUSTED_TYPE: Boolean((window as { trustedTypes?: unknown }).trustedTypes),
  }) as unknown as string;
}
