// What every client is asked to do, for both TypeScript clients; steps.py is the same in Python.
//
// A driver is started with one JSON object as its argument: how to connect, and whether the server
// keeps state between calls by itself. It prints one JSON object: for each step what came of it, or
// the error. What is right is for the tests to say.
import { createRequire } from 'node:module';

export const config = JSON.parse(process.argv[2]);
export const kitRequire = createRequire(config.kit + '/package.json');

const REQUEST = { timeout: 90000 };

// call(name, arguments, options) and the rest of `client` are the adapter's.
function steps(client) {
  const text = result => result.content.filter(c => c.type === 'text').map(c => c.text).join('');
  const brief = result => ({
    isError: result.isError ?? false, text: text(result), structured: result.structuredContent,
    kinds: result.content.map(c => c.type),
  });
  const python = (code, more, options) =>
    client.call('execute_python', { code, timeout: 100, ...more }, { ...REQUEST, ...options });
  let scope = {};

  return {
    async version() {
      return client.version();
    },
    async tools() {
      const { tools } = await client.listTools();
      return tools.map(t => ({ name: t.name, description: t.description, input: t.inputSchema,
                               output: t.outputSchema, annotations: t.annotations }));
    },
    async alone() {
      await python('x = 41');
      return brief(await python('print(x + 1)'));
    },
    async session() {
      const made = await client.call('create_session', {}, REQUEST);
      const session_id = made.structuredContent.session_id;
      await python('y = 20', { session_id });
      const ran = brief(await python('print(y + 1)', { session_id }));
      const closed = brief(await client.call('close_session', { session_id }, REQUEST));
      const after = brief(await python('print(y)', { session_id }));
      return { ran, closed, after };
    },
    async scope() {
      if (config.state)
        return {};
      const made = await client.call('create_session', {}, REQUEST);
      scope = { session_id: made.structuredContent.session_id };
      return scope;
    },
    async plot() {
      const result = await python(
        'import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()');
      const image = result.content.find(c => c.type === 'image');
      return { ...brief(result), mime: image?.mimeType, data: image?.data };
    },
    async progress() {
      const seen = [];
      const result = await python(
        'import time\nfor i in range(3):\n    print("line", i, flush=True)\n    time.sleep(0.3)',
        {}, { onprogress: p => seen.push(p) });
      return { ...brief(result), seen };
    },
    async cancel() {
      const stop = new AbortController();
      let ended = 'came back';
      try {
        // The loop says that it runs; only then is it cancelled.
        await python('import time\nprint("begun", flush=True)\nwhile True: time.sleep(0.05)', scope,
                     { signal: stop.signal, onprogress: () => stop.abort('enough') });
      } catch (error) {
        ended = stop.signal.aborted ? 'cancelled' : String(error);
      }
      return { ended, after: brief(await python('print("alive")', scope)) };
    },
    async file() {
      const path = 'notes/data.txt', content = 'three blind mice, héhé\n';
      const up = brief(await client.call('upload_file', { path, content, ...scope }, REQUEST));
      const ran = brief(await python(`print(open("${path}").read())`, scope));
      const read = brief(await client.call('read_file', { path, ...scope }, REQUEST));
      const list = brief(await client.call('list_files', { recursive: true, ...scope }, REQUEST));
      return { up, ran, read, list };
    },
    async resource() {
      const { resources } = await client.listResources();
      const uris = resources.map(r => r.uri);
      // Without sessions of the protocol files are not listed, but can be read.
      const uri = uris.find(one => one.endsWith('/files/notes/data.txt')) ??
        `glovebox://sessions/${scope.session_id}/files/notes/data.txt`;
      return { uri, uris, contents: (await client.readResource({ uri })).contents };
    },
    async failure() {
      return brief(await python('1 / 0'));
    },
    async unknown_tool() {
      try {
        return brief(await client.call('no_such_tool', {}, REQUEST));
      } catch (error) {
        return { code: error.code, message: error.message };
      }
    },
    async prompts() {
      const { prompts } = await client.listPrompts();
      const first = prompts[0];
      const words = Object.fromEntries((first.arguments ?? []).map(a => [a.name, 'data.csv']));
      const got = await client.getPrompt({ name: first.name, arguments: words });
      return { names: prompts.map(p => p.name), messages: got.messages };
    },
  };
}

export async function drive(connect) {
  const report = {};
  let client;
  try {
    client = await connect();
    for (const [name, step] of Object.entries(steps(client))) {
      try {
        report[name] = { value: await step() };
      } catch (error) {
        report[name] = { error: `${error?.name}: ${error?.message}`, code: error?.code };
      }
    }
    await client.close();
    report.close = { value: true };
  } catch (error) {
    report.connect = { error: String(error?.stack ?? error) };
  }
  process.stdout.write(JSON.stringify(report) + '\n', () => process.exit(0));
}
