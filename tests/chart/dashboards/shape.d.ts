// What a dashboard of the chart may be: Grafana's own types, with the options of the panels that are
// used. Grafana's enumerations are texts in JSON.
import type { AnnotationQuery, Dashboard, DataQuery, Panel, RowPanel } from '@grafana/schema';
import type * as Stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as TimeSeries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

type Plain<T> = T extends string
    ? `${T}`
    : T extends number | boolean | null | undefined
      ? T
      : T extends object
        ? { [K in keyof T]: Plain<T[K]> }
        : T;

interface Query extends DataQuery {
    expr: string;
    legendFormat: string;
}

/** The source Prometheus adds these to an annotation. */
interface PrometheusAnnotation extends AnnotationQuery {
    expr: string;
    titleFormat: string;
}

type Defaults = NonNullable<NonNullable<Panel['fieldConfig']>['defaults']>;

/** A panel whose type, options and field configuration go together; all that people read is there. */
type PanelOf<Type extends string, Options, Custom> = Omit<
    Panel,
    'type' | 'options' | 'fieldConfig' | 'targets' | 'title'
> & {
    type: Type;
    title: string;
    targets: Query[];
    options: Partial<Options>;
    fieldConfig: {
        defaults: Omit<Defaults, 'custom'> & {
            unit: string;
            thresholds: NonNullable<Defaults['thresholds']>;
            custom?: Partial<Custom>;
        };
        overrides: [];
    };
};

export type ChartPanel = Plain<
    | PanelOf<'stat', Stat.Options, never>
    | PanelOf<'timeseries', TimeSeries.Options, TimeSeries.FieldConfig>
    | (RowPanel & { title: string; panels: [] })
>;

export type ChartDashboard = Plain<Omit<Dashboard, 'panels' | 'annotations'>> & {
    uid: string;
    title: string;
    annotations: { list: Plain<PrometheusAnnotation>[] };
    panels: ChartPanel[];
};
