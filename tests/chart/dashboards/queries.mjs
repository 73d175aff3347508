// Reads PromQL: `node queries.mjs MODULES` takes {"name": "expression", …} on standard input and prints
// {"name": {"errors": […], "metrics": […], "labels": […]}, …}.
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
    const metrics = [];
    const labels = [];
    parser.parse(text).iterate({
        enter(node) {
            if (node.type.isError) errors.push(`at ${node.from}: ${text.slice(node.from, node.from + 20)}`);
            const word = text.slice(node.from, node.to);
            const isMetric = node.name === 'Identifier' && node.node.parent?.name === 'VectorSelector';
            if (isMetric) metrics.push(word);
            // In matchers, and after by, without, on and ignoring.
            if (node.name === 'LabelName') labels.push(word);
        },
    });
    return { errors, metrics, labels };
}

const expressions = JSON.parse(readFileSync(0, 'utf8'));
const answers = Object.entries(expressions).map(([name, expression]) => [name, read(expression)]);
process.stdout.write(JSON.stringify(Object.fromEntries(answers)));
