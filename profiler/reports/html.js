(() => {
  'use strict';
  const root = document.documentElement;
  const button = document.getElementById('theme');
  const dark = () => root.dataset.theme
    ? root.dataset.theme === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches;
  const name = () => { button.textContent = dark() ? 'Light' : 'Dark'; };
  button.hidden = false;
  button.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark';
    name();
  });
  name();

  const charts = JSON.parse(document.getElementById('marks').textContent);
  for (const figure of document.querySelectorAll('figure[data-chart]')) {
    const marks = charts[figure.dataset.chart] || [];
    const plot = figure.querySelector('.plot');
    const tip = document.createElement('div');
    const said = document.createElement('p');
    tip.className = 'tip';
    tip.setAttribute('aria-hidden', 'true');
    said.className = 'said';
    said.setAttribute('role', 'status');
    plot.append(tip, said);
    const order = marks.map((_, at) => at).sort((a, b) => marks[a][0] - marks[b][0]);
    let chosen = -1;

    // The drawing that is shown, and its plot in pixels of the screen.
    const shown = () => {
      for (const svg of plot.querySelectorAll('svg')) {
        const box = svg.getBoundingClientRect();
        if (!box.width) continue;
        const scale = box.width / svg.viewBox.baseVal.width;
        const edge = side => Number(svg.dataset[side]) * scale;
        return {
          svg, scale, box, left: edge('l'), top: edge('t'),
          width: box.width - edge('l') - edge('r'), height: box.height - edge('t') - edge('b'),
        };
      }
      return null;
    };
    const spot = (view, mark) => [
      view.left + mark[0] * view.width,
      mark[1] === null ? null : view.top + (1 - mark[1]) * view.height,
    ];
    const hide = () => {
      chosen = -1;
      tip.classList.remove('on');
      for (const cross of plot.querySelectorAll('.cross')) cross.setAttribute('d', '');
    };
    const show = (at, aloud) => {
      const view = shown();
      if (!view || !marks[at]) return;
      chosen = at;
      const [x, y] = spot(view, marks[at]);
      const u = value => (value / view.scale).toFixed(1);
      const bottom = u(view.top + view.height);
      view.svg.querySelector('.cross').setAttribute('d',
        `M${u(x)} ${u(view.top)}V${bottom}` + (y === null ? '' : `M${u(view.left)} ${u(y)}H${u(view.left + view.width)}`));
      tip.textContent = marks[at][2];
      tip.classList.add('on');
      const wide = tip.offsetWidth;
      const beside = x + 14 + wide > view.box.width ? x - 14 - wide : x + 14;
      tip.style.left = `${Math.max(0, Math.min(beside, view.box.width - wide))}px`;
      tip.style.top = `${view.top + 4}px`;
      if (aloud) said.textContent = marks[at][2].replaceAll('\n', '; ');
    };
    const nearest = event => {
      const view = shown();
      if (!view) return -1;
      const px = event.clientX - view.box.left, py = event.clientY - view.box.top;
      let best = -1, least = Infinity;
      marks.forEach((mark, at) => {
        const [x, y] = spot(view, mark);
        // A single point wins when the pointer is on it; else the moment does.
        const far = y === null ? Math.abs(px - x) + 12 : Math.hypot(px - x, py - y);
        if (far < least) { least = far; best = at; }
      });
      return best;
    };
    plot.addEventListener('pointermove', event => show(nearest(event), false));
    plot.addEventListener('pointerdown', event => show(nearest(event), false));
    plot.addEventListener('pointerleave', hide);
    plot.tabIndex = 0;
    plot.setAttribute('role', 'group');
    plot.setAttribute('aria-label',
      `${figure.querySelector('figcaption').textContent}: arrow keys read single values out`);
    plot.addEventListener('keydown', event => {
      const here = order.indexOf(chosen), last = order.length - 1;
      const next = {
        ArrowRight: Math.min(last, here + 1), ArrowLeft: Math.max(0, here - 1),
        PageDown: Math.min(last, here + 10), PageUp: Math.max(0, here - 10),
        Home: 0, End: last,
      }[event.key];
      if (event.key === 'Escape') hide();
      if (next === undefined) return;
      event.preventDefault();
      show(order[next], true);
    });
    plot.addEventListener('blur', hide);
  }
})();
