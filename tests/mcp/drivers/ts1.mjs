// The official TypeScript client 1.x.
import { config, drive, kitRequire } from './steps.mjs';

const sdk = name => kitRequire(`@modelcontextprotocol/sdk/${name}`);
const { Client } = sdk('client/index.js');
const { StreamableHTTPClientTransport } = sdk('client/streamableHttp.js');
const { SSEClientTransport } = sdk('client/sse.js');
const { StdioClientTransport } = sdk('client/stdio.js');
const { CallToolResultSchema } = sdk('types.js');

function transport() {
  const requestInit = { headers: config.headers ?? {} };
  if (config.transport === 'http')
    return new StreamableHTTPClientTransport(new URL(config.url), { requestInit });
  if (config.transport === 'sse')
    return new SSEClientTransport(new URL(config.url), { requestInit });
  return new StdioClientTransport({ command: config.command[0], args: config.command.slice(1),
                                    env: config.env });
}

await drive(async () => {
  const client = new Client({ name: 'proof', version: '1' });
  const line = transport();
  await client.connect(line);
  return {
    version: () => line.protocolVersion ?? null,
    listTools: () => client.listTools(),
    call: (name, words, options) =>
      client.callTool({ name, arguments: words }, CallToolResultSchema, options),
    listResources: () => client.listResources(),
    readResource: params => client.readResource(params),
    listPrompts: () => client.listPrompts(),
    getPrompt: params => client.getPrompt(params),
    close: async () => {
      if (config.transport === 'http')
        await line.terminateSession();
      await client.close();
    },
  };
});
