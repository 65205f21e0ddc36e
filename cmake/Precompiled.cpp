// Holds the precompiled header that every file including MLIR shares.
