'use strict';
// Does what it is asked, notes it, and closes connections that are idle for so many milliseconds.
const { appendFileSync } = require('node:fs');
const http = require('node:http');
const http2 = require('node:http2');

const [h1, h2, idle, acts] = process.argv.slice(2);

function act(request, response) {
    request.resume();
    request.on('end', () => {
        appendFileSync(acts, request.headers['x-operation'] + '\n');
        response.writeHead(201);
        response.end('done');
    });
}

http.createServer({ keepAliveTimeout: Number(idle), keepAliveTimeoutBuffer: 0 }, act).listen(Number(h1), '127.0.0.1');
http2
    .createServer(act)
    .on('session', (session) => session.setTimeout(Number(idle), () => session.close()))
    .listen(Number(h2), '127.0.0.1');
