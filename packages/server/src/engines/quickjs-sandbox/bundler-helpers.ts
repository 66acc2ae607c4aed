/**
 * The bundler's own functions, so that they go by what objects have of their own: what a source has
 * given to all objects is no export, and no part of how a property is defined. No line moves.
 * @param helpers code in which they stand, minified or not
 */
export function fixHelpers(helpers: string): string {
  return helpers
    .replace(/\bfor ?\(var name in all\)/g, "for (var name in { __proto__: null, ...all })")
    .replace(/(__defProp\([^{}]*\{) ?(get|value):/g, "$1 __proto__: null, $2:");
}
