// Reads PromQL: `node queries.mjs MODULES` takes {"name": "expression", …} on standard input and prints
// {"name": {"errors": […], "selectors": [{"metric": …, "labels": […]}, …]}, …}.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.argv[2], 'package.json'));
const { parser } = require('@prometheus-io/lezer-promql');

// Grafana's variables stand where PromQL wants a span of time.
const plain = (text) => text.replaceAll(/\$__(rate_interval|range|interval)\b/g, '5m');

function read(expression) {
    const text = plain(expression);
    const errors = [];
    const selectors = [];
    parser.parse(text).iterate({
        enter(node) {
            if (node.type.isError) errors.push(`at ${node.from}: ${text.slice(node.from, node.from + 20)}`);
            if (node.name === 'VectorSelector') selectors.push({ metric: null, labels: [] });
            const last = selectors.at(-1);
            const word = text.slice(node.from, node.to);
            if (node.name === 'Identifier' && node.node.parent?.name === 'VectorSelector') last.metric = word;
            if (node.name === 'LabelName' && node.node.parent?.name.endsWith('Matcher')) last.labels.push(word);
        },
    });
    return { errors, selectors };
}

const expressions = JSON.parse(readFileSync(0, 'utf8'));
const answers = Object.entries(expressions).map(([name, expression]) => [name, read(expression)]);
process.stdout.write(JSON.stringify(Object.fromEntries(answers)));
