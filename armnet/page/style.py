"""The style sheet of the report page, light or dark as the reader's system is set."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fbfbfa; --card: #ffffff; --ink: #1d2126; --faint: #697079; --line: #e2e4e8; --stripe: #f4f5f7;
  --accent: #2f6fde; --alarm: #c8372d;
  --conv: #2f6fde; --matmul: #7a4fd0; --pool: #0d8f8a; --norm: #a5652a; --activation: #2d9a4b; --elementwise: #c2447f;
  --movement: #7d858f; --other: #4a525c;
  --input: #5f7fa8; --scratch: #9aa1ab; --light: 62%; --label: #10141a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15181c; --card: #1c2025; --ink: #e4e7eb; --faint: #98a1ac; --line: #30363d; --stripe: #20252b;
    --accent: #6da2ff; --alarm: #ff7b6e;
    --conv: #6da2ff; --matmul: #b394ff; --pool: #4fd0c9; --norm: #dda066; --activation: #6fd58a; --elementwise: #f08cbb;
    --movement: #98a1ac; --other: #b5bdc7;
    --input: #7c9cc6; --scratch: #6b747f; --light: 48%; --label: #ffffff;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
       font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 1280px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 24px; margin: 0 0 4px; overflow-wrap: anywhere; }
li { overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 36px 0 10px; }
p { margin: 4px 0 10px; color: var(--faint); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-top: 18px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.card b { display: block; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; }
.card span { color: var(--faint); font-size: 12px; }
.panel { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px; overflow-x: auto; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 0 24px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { text-align: left; font-weight: 600; color: var(--faint); font-size: 12px; padding: 2px 8px; white-space: nowrap; }
td { padding: 0 8px; height: 24px; line-height: 24px; white-space: nowrap; max-width: 340px; overflow: hidden;
     text-overflow: ellipsis; }
.right { text-align: right; font-variant-numeric: tabular-nums; }
.operators tr:nth-child(even) td { background: var(--stripe); }
.operators th { height: 28px; padding: 0; }
.operators { font-size: 12px; }
.operators td { padding: 0 6px; max-width: 210px; }
.operators button { all: unset; box-sizing: border-box; width: 100%; padding: 0 6px; cursor: pointer; }
.operators button:focus-visible { outline: 2px solid var(--accent); }
.operators [aria-sort=ascending] button::after { content: "\\2009\\25b4"; }
.operators [aria-sort=descending] button::after { content: "\\2009\\25be"; }
.graphed { display: flex; align-items: flex-start; }
.lanes { flex: none; max-width: 140px; overflow-x: auto; padding-top: 28px; }
.lanes svg { display: block; }
.search input { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line);
                border-radius: 6px; padding: 4px 10px; width: 320px; max-width: 100%; }
.name { font-family: ui-monospace, "Cascadia Mono", "DejaVu Sans Mono", monospace; font-size: 12px; }
.faint { color: var(--faint); }
.tag { display: inline-block; border: 1px solid var(--line); border-radius: 4px; padding: 0 5px; line-height: 17px;
       font-size: 11px; }
.bar { display: inline-block; height: 9px; border-radius: 2px; background: var(--accent); vertical-align: middle; }
.key { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 6px 0 10px; font-size: 12px; color: var(--faint); }
.key i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 5px; }
[hidden] { display: none; }
svg text { fill: var(--faint); font: 11px system-ui, sans-serif; }
svg .over { paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
svg .label { fill: var(--label); font-size: 10px; pointer-events: none; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .live { fill: none; stroke: var(--ink); stroke-width: 1.2; stroke-linejoin: round; opacity: 0.85; }
svg .peak { stroke: var(--alarm); stroke-width: 1; stroke-dasharray: 3 3; }
svg .peak-label { fill: var(--alarm); }
svg .block { stroke: var(--card); stroke-width: 0.7; }
svg .block:hover { stroke: var(--ink); stroke-width: 2; }
svg .edge { fill: none; stroke-width: 1.6; opacity: 0.75; }
@media (max-width: 600px) {
  main { padding: 18px 14px 40px; }
  .panel { padding: 8px; }
  th, td { padding-left: 5px; padding-right: 5px; }
}
footer { margin-top: 40px; color: var(--faint); font-size: 12px; }
"""
