export declare function isbot(userAgent: string): boolean;
