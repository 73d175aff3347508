// Checks each dashboard against Grafana's types: `node types.mjs MODULES DASHBOARD...`, where MODULES
// is the folder with node_modules in it. Exits with 1 and the compiler's messages if one does not fit.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [modules, ...dashboards] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(modules, 'types-'));
try {
    copyFileSync(join(here, 'shape.d.ts'), join(folder, 'shape.d.ts'));
    for (const path of dashboards) {
        // As a literal: the type of imported JSON has any text where Grafana wants one of a few.
        const source =
            `import type { ChartDashboard } from './shape.d.ts';\n` +
            `export const dashboard: ChartDashboard = ${readFileSync(path, 'utf8')};\n`;
        writeFileSync(join(folder, `${basename(path, '.json')}.ts`), source);
    }
    const options = {
        compilerOptions: {
            strict: true,
            noEmit: true,
            skipLibCheck: true,
            allowImportingTsExtensions: true,
            module: 'nodenext',
            target: 'es2022',
            types: [],
        },
        include: ['*.ts'],
    };
    writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(options));
    const compiler = join(modules, 'node_modules/typescript/bin/tsc');
    execFileSync(process.execPath, [compiler, '--project', folder, '--pretty', 'false'], {
        stdio: ['ignore', 'inherit', 'inherit'],
    });
} catch (error) {
    console.error(error.message);
    process.exitCode = 1;
} finally {
    rmSync(folder, { recursive: true });
}
