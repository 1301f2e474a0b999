// The official TypeScript client 2.x, which speaks both eras.
import { config, drive, kitRequire } from './steps.mjs';

const { Client, StreamableHTTPClientTransport, SSEClientTransport } =
  kitRequire('@modelcontextprotocol/client');
const { StdioClientTransport } = kitRequire('@modelcontextprotocol/client/stdio');

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
  const client = new Client({ name: 'proof', version: '1' },
                            { versionNegotiation: { mode: config.mode } });
  const line = transport();
  await client.connect(line);
  return {
    version: () => client.getNegotiatedProtocolVersion(),
    listTools: () => client.listTools(),
    call: (name, words, options) => client.callTool({ name, arguments: words }, options),
    listResources: () => client.listResources(),
    readResource: params => client.readResource(params),
    listPrompts: () => client.listPrompts(),
    getPrompt: params => client.getPrompt(params),
    close: async () => {
      if (config.transport === 'http' && line.sessionId)
        await line.terminateSession();
      await client.close();
    },
  };
});
