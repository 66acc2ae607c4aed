import type { PropertyType } from "@hedgerow/core/events/property-type";
import {
  type Expression,
  type ExpressionBuilder,
  type Selectable,
  type SqlBool,
  sql,
  type UpdateObject,
} from "kysely";
import {
  OFFICIAL_PROPERTY_NAMES,
  type PropertyDefinition,
  type PropertyDefinitionFields,
  type PropertyDefinitionQuery,
  type PropertyDefinitionStore,
} from "../../event-definitions/property-definition-store.ts";
import type { PropertySubject } from "../../event-definitions/sighting-store.ts";
import { decodeBoolean, encodeBoolean } from "./codec.ts";
import { beginsWith, createDefinitionRows, decodeCommon, encodeCommon } from "./definition-rows.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** Stands for the index of the group type where a property describes no group. */
const NO_GROUP_TYPE = -1;

/** {@link PropertyDefinitionStore} on SQL. */
export function createPropertyDefinitionStore(database: SqlDatabase): PropertyDefinitionStore {
  const rows = createDefinitionRows(database, { table: "property_definitions", decode });
  return {
    update: (projectId, id, change, write) => rows.update(projectId, id, encode(change), write),
    delete: (projectId, id, write) => rows.delete(projectId, id, write),
    definition: (projectId, id) => rows.find(projectId, "uuid", id),

    async list(projectId, query) {
      const isSeen = isSeenOn(projectId, query.eventNames ?? []);
      const { count, found } = await rows.list(projectId, query, {
        conditions: (eb) => [
          ...conditionsOf(query, eb),
          ...(query.eventNames !== null && query.onlySeenOnEvents ? [isSeen] : []),
        ],
        marked: isSeen,
      });
      return {
        count,
        properties: found.map(({ definition, isMarked }) => ({
          definition,
          isSeenOnEvents: query.eventNames === null ? null : isMarked,
        })),
      };
    },
  };
}

function conditionsOf(
  query: PropertyDefinitionQuery,
  eb: ExpressionBuilder<Schema, "property_definitions">,
): Expression<SqlBool>[] {
  const { kind, groupTypeIndex } = subjectColumns(query.subject);
  const name = eb.ref("name");
  const conditions: Expression<SqlBool>[] = [
    eb("kind", "=", kind),
    eb("group_type_index", "=", groupTypeIndex),
  ];
  if (query.names !== null) {
    conditions.push(
      query.names.length === 0 ? sql<SqlBool>`1 = 0` : eb("name", "in", [...query.names]),
    );
  }
  if (query.isFlagValue !== null) {
    const isFlagValue = beginsWith(name, "$feature/");
    conditions.push(query.isFlagValue ? isFlagValue : eb.not(isFlagValue));
  }
  if (query.isNumerical !== null) {
    conditions.push(eb("is_numerical", "=", encodeBoolean(query.isNumerical)));
  }
  if (query.excludeOfficial) {
    conditions.push(
      eb.not(beginsWith(name, "$")),
      eb("name", "not in", [...OFFICIAL_PROPERTY_NAMES]),
    );
  }
  return conditions;
}

/** Whether one of some events carries the property of a row. */
function isSeenOn(projectId: number, eventNames: readonly string[]): Expression<SqlBool> {
  if (eventNames.length === 0) return sql<SqlBool>`1 = 0`;
  return sql<SqlBool>`property_definitions.id in (
    select p.property_id from event_properties p
      join event_definitions e on e.id = p.event_id
      where e.project_id = ${projectId} and e.name in (${sql.join([...eventNames])}))`;
}

/** How the subject of a property is stored. */
export function subjectColumns(subject: PropertySubject): {
  readonly kind: string;
  readonly groupTypeIndex: number;
} {
  const groupTypeIndex = subject.kind === "group" ? subject.groupTypeIndex : NO_GROUP_TYPE;
  return { kind: subject.kind, groupTypeIndex };
}

function subjectOf({
  kind,
  group_type_index: groupTypeIndex,
}: Selectable<Schema["property_definitions"]>): PropertySubject {
  if (kind === "group") return { kind, groupTypeIndex };
  if (kind === "event" || kind === "person") return { kind };
  throw new Error(`unknown kind of property definition: ${kind}`);
}

function encode(
  change: Partial<PropertyDefinitionFields>,
): UpdateObject<Schema, "property_definitions", "property_definitions"> {
  const { type, isNumerical } = change;
  return {
    ...encodeCommon(change),
    ...(type === undefined ? {} : { property_type: type }),
    ...(isNumerical === undefined ? {} : { is_numerical: encodeBoolean(isNumerical) }),
  };
}

function decode(row: Selectable<Schema["property_definitions"]>): PropertyDefinition {
  return {
    ...decodeCommon(row),
    subject: subjectOf(row),
    // Only types are ever written there.
    type: row.property_type as PropertyType | null,
    isNumerical: decodeBoolean(row.is_numerical),
  };
}
