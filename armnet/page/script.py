"""The script of the report page: sorts the operators and searches them. Without scripts the page still shows
everything.
"""

SCRIPT = """
(function () {
  "use strict";
  var table = document.querySelector("table.operators"), body = table.tBodies[0];
  var rows = Array.from(body.rows), heads = Array.from(table.tHead.rows[0].cells);
  var graph = document.querySelector(".lanes"), box = document.querySelector("#search");
  var told = document.querySelector("#found"), column = -1, falling = false;
  function value(row) {
    var cell = row.cells[column];
    return cell.dataset.n === undefined ? cell.textContent : Number(cell.dataset.n);
  }
  function compare(a, b) {
    var x = value(a), y = value(b);
    var order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
    return falling ? -order : order;
  }
  function show() {
    var wanted = box.value.toLowerCase(), found = 0;
    var order = column < 0 ? rows : rows.slice().sort(compare);
    order.forEach(function (row) {
      var fits = row.dataset.words.toLowerCase().indexOf(wanted) >= 0;
      row.hidden = !fits;
      found += fits ? 1 : 0;
      body.appendChild(row);
    });
    graph.style.display = column < 0 && !wanted ? "" : "none";
    told.textContent = wanted ? found + " of " + rows.length : "";
    heads.forEach(function (head, at) {
      head.setAttribute("aria-sort", at !== column ? "none" : falling ? "descending" : "ascending");
    });
  }
  heads.forEach(function (head, at) {
    head.firstChild.addEventListener("click", function () {
      var numbers = head.className === "right";
      if (at !== column) { column = at; falling = numbers && at > 0; }
      else if (falling === (numbers && at > 0)) { falling = !falling; }
      else { column = -1; }
      show();
    });
  });
  box.addEventListener("input", show);
  document.querySelector(".search").hidden = false;
})();
"""
