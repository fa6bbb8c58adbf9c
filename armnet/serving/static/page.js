"use strict";

const $ = (id) => document.getElementById(id);
const LONGEST = 960; // pixels of a camera's frame that is sent
const JPEG = 0.85;
const LEAST = 0.3; // the score of points that are drawn
const BONES = [[0, 1], [0, 2], [1, 3], [2, 4], [5, 6], [5, 7], [7, 9], [6, 8], [8, 10], [5, 11], [6, 12], [11, 12],
               [11, 13], [13, 15], [12, 14], [14, 16]]; // between the 17 points of a body

let about = null;
let token = null;
let last = null; // the last answer that has something to draw: {said, overlay}
let stream = null;
let facing = "environment";

// ---- asking the server ----

function readToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  token = sessionStorage.getItem("token");
}

async function ask(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (token) headers.Authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch {
    throw new Error("the server does not answer");
  }
  let said = null;
  try { said = await answer.json(); } catch { /* told below */ }
  if (answer.status === 401) logIn();
  if (!answer.ok) {
    const error = new Error(said && said.error ? said.error : `the server answers ${answer.status}`);
    error.status = answer.status;
    throw error;
  }
  return said;
}

async function predict(body, kind) {
  const start = performance.now();
  const said = await ask("predict?overlay=1", { method: "POST", body, headers: { "Content-Type": kind } });
  return { said, milliseconds: performance.now() - start };
}

function logIn() {
  $("login").hidden = false;
  $("token").focus();
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  sessionStorage.setItem("token", token);
  $("login").hidden = true;
  start();
});

// ---- showing answers ----

function complain(text) {
  $("problem").textContent = text.charAt(0).toUpperCase() + text.slice(1);
  $("problem").hidden = !text;
  if (text) $("latency").hidden = true;
}

// A Raspberry Pi may take seconds.
function wait() {
  complain("");
  $("found").replaceChildren();
  $("unnamed").hidden = true;
  $("latency").textContent = "Waiting for the answer …";
  $("latency").hidden = false;
}

function colour(index) {
  const [r, g, b] = about.colours[index % about.colours.length];
  return `rgb(${r} ${g} ${b})`;
}

function called(thing) {
  return thing.label === null || thing.label === undefined ? `class ${thing.index}` : thing.label;
}

function entry(label, score, options = {}) {
  const line = document.createElement("li");
  if (options.colour) {
    const dot = document.createElement("span");
    dot.className = "dot";
    dot.style.background = options.colour;
    line.append(dot);
  }
  const name = document.createElement("span");
  name.className = "label";
  name.textContent = label;
  line.append(name);
  if (score !== undefined) {
    const number = document.createElement("span");
    number.className = "score";
    number.textContent = score;
    line.append(number);
  }
  if (options.share !== undefined) {
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.style.width = `${100 * Math.min(1, Math.max(0, options.share))}%`;
    line.prepend(bar);
  }
  return line;
}

const percent = (share) => share > 0 && share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;

function entries(result, lines) {
  const logits = result.scores === "logits";
  switch (result.kind) {
    case "classes":
      return result.classes.map((one) => logits
        ? entry(called(one), `${one.score.toFixed(3)} (logit)`)
        : entry(called(one), percent(one.score), { share: one.score }));
    case "boxes":
      if (!result.boxes.length) return [entry("nothing found")];
      return result.boxes.map((one) => entry(called(one), percent(one.score), { colour: colour(one.index) }));
    case "mask":
      return result.regions.map((one) =>
        entry(called(one), percent(one.share), { colour: one.index ? colour(one.index) : "transparent" }));
    case "keypoints":
      return result.points.map((one) => entry(one.name, percent(one.score)));
    case "sound events":
      if (!result.events.length) return [entry(`nothing heard in ${result.seconds.toFixed(2)} s`)];
      return result.events.map((one) =>
        entry(`${called(one)}, ${one.start.toFixed(2)} s to ${one.end.toFixed(2)} s`, percent(one.score),
          { colour: colour(one.index) }));
    default:
      return lines.map((line) => entry(line.trim()));
  }
}

function unnamed(result) {
  const things = result.classes || result.boxes || result.regions || result.events || [];
  return things.some((one) => one.label === null || one.label === undefined);
}

function show({ said, milliseconds }, rate) {
  complain("");
  const results = said.results || [said.result];
  $("found").replaceChildren(...(results.length === 1 ? entries(results[0], said.lines)
    : said.lines.map((line) => entry(line.trim()))));
  $("unnamed").hidden = about.labels > 0 || !results.some(unnamed);
  const model = 1000 * said.seconds;
  const transfer = Math.max(0, milliseconds - model);
  $("latency").textContent = `${milliseconds.toFixed(0)} ms: model ${model.toFixed(0)} ms, transfer ${transfer.toFixed(0)} ms`
    + (rate ? `; ${rate.toFixed(1)} a second` : "");
  $("latency").hidden = false;
}

async function loaded(source) {
  if (!source) return null;
  const image = new Image();
  image.src = source;
  await image.decode();
  return image;
}

async function showOver(answer) {
  const { said } = answer;
  const made = said.result && (said.result.kind === "image" || said.result.kind === "depth");
  $("made").hidden = !made;
  if (made && said.overlay) $("result").src = said.overlay;
  last = { said, overlay: made ? null : await loaded(said.overlay) };
  paint();
}

// The canvas lies over what is shown and has its size on the screen.
function paint() {
  const source = $("video").hidden ? $("shown") : $("video");
  const canvas = $("over");
  if (!last || source.hidden || !last.said.picture) {
    canvas.hidden = true;
    return;
  }
  const ratio = window.devicePixelRatio || 1;
  const { offsetLeft: left, offsetTop: top, clientWidth: width, clientHeight: height } = source;
  canvas.style.left = `${left}px`;
  canvas.style.top = `${top}px`;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.hidden = false;
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (last.overlay) context.drawImage(last.overlay, 0, 0, canvas.width, canvas.height);
  const scale = canvas.width / last.said.picture.width;
  const draw = { boxes: paintBoxes, keypoints: paintPoints }[last.said.result.kind];
  if (draw) draw(context, last.said.result, scale, ratio);
}

function paintBoxes(context, result, scale, ratio) {
  context.lineWidth = 2.5 * ratio;
  context.font = `${13 * ratio}px system-ui, sans-serif`;
  context.textBaseline = "bottom";
  for (const one of result.boxes) {
    const [x0, y0, x1, y1] = one.box.map((edge) => edge * scale);
    context.strokeStyle = context.fillStyle = colour(one.index);
    context.strokeRect(x0, y0, x1 - x0, y1 - y0);
    dots(context, one.points || [], scale, Math.min(3.5 * ratio, Math.max(ratio, (x1 - x0) / 20)));
  }
  const centres = result.boxes.map((one) => [0.5 * (one.box[0] + one.box[2]) * scale, 0.5 * (one.box[1] + one.box[3]) * scale]);
  const taken = [];
  for (const one of result.boxes) paintLabel(context, one, scale, ratio, taken, centres);
}

// Above the box, below it or inside it: where no other label and no box's centre is. If there is no room, the list below
// has the label.
function paintLabel(context, one, scale, ratio, taken, centres) {
  const [x0, y0, , y1] = one.box.map((edge) => edge * scale);
  const text = shortened(context, `${called(one)} ${(100 * one.score).toFixed(0)} %`, context.canvas.width - 8 * ratio);
  const width = context.measureText(text).width + 8 * ratio;
  const height = 18 * ratio;
  const left = Math.max(0, Math.min(x0, context.canvas.width - width));
  const free = (foot) => foot >= height && foot <= context.canvas.height
    && taken.every((other) => left >= other.left + other.width || other.left >= left + width
      || foot <= other.foot - height || other.foot <= foot - height)
    && centres.every(([x, y]) => x <= left || x >= left + width || y <= foot - height || y >= foot);
  const foot = [y0, y1 + height, y0 + height, y1].find(free);
  if (foot === undefined) return;
  taken.push({ left, width, foot });
  context.fillStyle = colour(one.index);
  context.fillRect(left, foot - height, width, height);
  context.fillStyle = "white";
  context.fillText(text, left + 4 * ratio, foot - 2 * ratio);
}

function shortened(context, text, width) {
  let kept = text;
  while (kept.length > 1 && context.measureText(kept).width > width) kept = `${kept.slice(0, -2)}…`;
  return kept;
}

function paintPoints(context, result, scale, ratio) {
  const seen = result.points.map((one) => one.score >= LEAST);
  const places = result.points.map((one) => one.point.map((edge) => edge * scale));
  context.lineWidth = 3 * ratio;
  context.strokeStyle = context.fillStyle = colour(0);
  for (const [a, b] of result.points.length === 17 ? BONES : []) {
    if (!seen[a] || !seen[b]) continue;
    context.beginPath();
    context.moveTo(...places[a]);
    context.lineTo(...places[b]);
    context.stroke();
  }
  dots(context, result.points.filter((_, at) => seen[at]).map((one) => one.point), scale, 3.5 * ratio);
}

function dots(context, points, scale, radius) {
  for (const [x, y] of points) {
    context.beginPath();
    context.arc(x * scale, y * scale, radius, 0, 2 * Math.PI);
    context.fill();
  }
}

window.addEventListener("resize", paint);

// ---- pictures ----

function reveal(element) {
  for (const id of ["empty", "video", "shown"]) $(id).hidden = $(id) !== element;
}

async function sendPicture(file) {
  stopCamera();
  last = null;
  wait();
  $("made").hidden = true;
  try {
    $("shown").src = URL.createObjectURL(file);
    reveal($("shown"));
    try { await $("shown").decode(); } catch { reveal($("empty")); } // the server says what is wrong with it
    const body = file.size > about.limits.bytes ? await smaller($("shown")) : file;
    const answer = await predict(body, file.type || "application/octet-stream");
    show(answer);
    await showOver(answer);
  } catch (error) {
    complain(error.message);
  } finally {
    paint();
  }
}

function smaller(image, longest = 2048) {
  return frame(image, image.naturalWidth, image.naturalHeight, longest);
}

function frame(source, width, height, longest) {
  const scale = Math.min(1, longest / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  canvas.getContext("2d").drawImage(source, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => blob ? resolve(blob) : reject(new Error("the picture cannot be read")), "image/jpeg", JPEG);
  });
}

// ---- camera ----

async function startCamera() {
  complain("");
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: facing }, audio: false });
  } catch (error) {
    complain(`The browser gives no camera: ${error.message}`);
    return;
  }
  const mine = stream;
  last = null;
  $("made").hidden = true;
  $("video").srcObject = mine;
  reveal($("video"));
  await $("video").play();
  $("camera").textContent = "Stop camera";
  $("turn").hidden = (await navigator.mediaDevices.enumerateDevices()).filter((one) => one.kind === "videoinput").length < 2;
  watch(mine);
}

async function watch(mine) {
  let rate = 0;
  let before = performance.now();
  while (stream === mine) {
    const video = $("video");
    try {
      const answer = await predict(await frame(video, video.videoWidth, video.videoHeight, LONGEST), "image/jpeg");
      if (stream !== mine) return;
      const now = performance.now();
      const current = 1000 / Math.max(1, now - before);
      rate = rate ? 0.8 * rate + 0.2 * current : current;
      before = now;
      show(answer, rate);
      await showOver(answer);
    } catch (error) {
      if (stream !== mine) return;
      complain(error.message);
      if (error.status === 401) return stopCamera();
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}

function stopCamera() {
  if (!stream) return;
  stream.getTracks().forEach((track) => track.stop());
  stream = null;
  last = null;
  $("video").srcObject = null;
  $("camera").textContent = "Start camera";
  $("turn").hidden = true;
  reveal($("empty"));
  paint();
}

$("camera").addEventListener("click", () => stream ? stopCamera() : startCamera());
$("turn").addEventListener("click", () => {
  facing = facing === "user" ? "environment" : "user";
  stopCamera();
  startCamera();
});
$("picture").addEventListener("change", (event) => {
  if (event.target.files.length) sendPicture(event.target.files[0]);
  event.target.value = "";
});
for (const name of ["dragover", "dragleave", "drop"]) {
  $("stage").addEventListener(name, (event) => {
    event.preventDefault();
    $("stage").classList.toggle("aimed", name === "dragover");
    if (name === "drop" && event.dataTransfer.files.length) sendPicture(event.dataTransfer.files[0]);
  });
}

// ---- sounds ----

// Any sound that the browser can decode, as a .wav of 16 bits and one channel, which every server can read.
async function wav(blob) {
  const context = new AudioContext();
  let sound;
  try {
    sound = await context.decodeAudioData(await blob.arrayBuffer());
  } catch {
    return blob;
  } finally {
    context.close();
  }
  const count = sound.length;
  const view = new DataView(new ArrayBuffer(44 + 2 * count));
  const word = (at, text) => [...text].forEach((char, place) => view.setUint8(at + place, char.charCodeAt(0)));
  word(0, "RIFF"); view.setUint32(4, 36 + 2 * count, true); word(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, sound.sampleRate, true); view.setUint32(28, 2 * sound.sampleRate, true);
  view.setUint16(32, 2, true); view.setUint16(34, 16, true); word(36, "data"); view.setUint32(40, 2 * count, true);
  const channels = Array.from({ length: sound.numberOfChannels }, (_, at) => sound.getChannelData(at));
  for (let at = 0; at < count; at += 1) {
    const mean = channels.reduce((sum, channel) => sum + channel[at], 0) / channels.length;
    view.setInt16(44 + 2 * at, Math.max(-1, Math.min(1, mean)) * 32767, true);
  }
  return new Blob([view], { type: "audio/wav" });
}

async function sendSound(blob) {
  wait();
  $("timeline").hidden = $("scale").hidden = true;
  try {
    const answer = await predict(await wav(blob), "audio/wav");
    show(answer);
    if (answer.said.result && answer.said.result.kind === "sound events") paintTimeline(answer.said.result);
  } catch (error) {
    complain(error.message);
  }
}

function paintTimeline(result) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "0 0 1000 10");
  picture.setAttribute("preserveAspectRatio", "none");
  for (const one of result.events) {
    const bar = document.createElementNS(space, "rect");
    const left = 1000 * one.start / result.seconds;
    bar.setAttribute("x", left);
    bar.setAttribute("width", Math.max(1, 1000 * one.end / result.seconds - left));
    bar.setAttribute("height", 10);
    bar.setAttribute("fill", colour(one.index));
    picture.append(bar);
  }
  $("timeline").replaceChildren(picture);
  $("end").textContent = `${result.seconds.toFixed(2)} s`;
  $("timeline").hidden = $("scale").hidden = false;
}

let recorder = null;

$("record").addEventListener("click", async () => {
  if (recorder) {
    recorder.stop();
    return;
  }
  let microphone;
  try {
    microphone = await navigator.mediaDevices.getUserMedia({ audio: true });
  } catch (error) {
    complain(`The browser gives no microphone: ${error.message}`);
    return;
  }
  const parts = [];
  recorder = new MediaRecorder(microphone);
  recorder.addEventListener("dataavailable", (event) => parts.push(event.data));
  recorder.addEventListener("stop", () => {
    microphone.getTracks().forEach((track) => track.stop());
    const kind = recorder.mimeType;
    recorder = null;
    $("record").textContent = "Record";
    sendSound(new Blob(parts, { type: kind }));
  });
  recorder.start();
  $("record").textContent = "Stop and send";
});
$("sound").addEventListener("change", (event) => {
  if (event.target.files.length) sendSound(event.target.files[0]);
  event.target.value = "";
});

// ---- arrays ----

$("send").addEventListener("click", async () => {
  wait();
  try {
    show(await predict($("json").value, "application/json"));
  } catch (error) {
    complain(error.message);
  }
});

// ---- the start ----

async function start() {
  complain("");
  try {
    about = await ask("model");
  } catch (error) {
    if (error.status !== 401) complain(error.message);
    return;
  }
  document.title = `${about.name} – armnet`;
  $("name").replaceChildren(...about.name.split(/(?<=[_.-])/).flatMap((part) => [part, document.createElement("wbr")]));
  $("about").textContent = `takes ${about.takes === "arrays" ? "arrays" : `a ${about.takes}`}, gives ${about.kind}`
    + (about.labels ? `, ${about.labels} labels` : "");
  $("pictures").hidden = about.takes !== "picture";
  $("sounds").hidden = about.takes !== "sound";
  $("arrays").hidden = about.takes !== "arrays";
  const media = Boolean(navigator.mediaDevices && navigator.mediaDevices.getUserMedia);
  const why = "Browsers allow a page the camera and the microphone only over https. Start the server with --https.";
  $("camera").hidden = $("record").hidden = !media;
  $("choose").textContent = media ? "Choose a picture" : "Take or choose a picture";
  $("empty").textContent = media ? "Start the camera, choose a picture, or drop one here."
    : "Take a picture, choose one, or drop one here.";
  for (const id of ["hint", "sound-hint"]) {
    $(id).textContent = why;
    $(id).hidden = media;
  }
  if (!$("json").value) {
    const inputs = Object.fromEntries(about.inputs.map((one) => [one.name, []]));
    $("json").value = JSON.stringify({ inputs }, null, 1);
  }
  const header = token ? ` -H 'Authorization: Bearer ${token}'` : "";
  const what = { picture: "photo.jpg", sound: "sound.wav", arrays: "inputs.npz" }[about.takes];
  $("curl").textContent = `curl${header} --data-binary @${what} ${location.origin}/predict`;
  $("described").hidden = Boolean(token); // a link cannot carry the token
  $("programs").hidden = false;
}

readToken();
start();
