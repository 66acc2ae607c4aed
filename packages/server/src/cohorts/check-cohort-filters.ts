export const checkCohortFilters = (f:any,_o:any)=> undefined;
