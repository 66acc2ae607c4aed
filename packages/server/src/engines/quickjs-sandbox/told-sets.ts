/**
 * What the guest says of an event of which nothing but properties was set: that they are the next in
 * the list of what the events of a run set, keys first, or those of the same keys as before.
 */
export const SET = "*";
export const SET_ALIKE = "&";
