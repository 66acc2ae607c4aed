export const checkFilters = (f: any, _o: any) => ("groups" in f ? f : { ...f, groups: [] });
