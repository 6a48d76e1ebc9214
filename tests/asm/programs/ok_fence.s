fence                   # = 0f00f00f
fence rw, w             # = 0f001003
fence 3, 1              # = 0f001003
fence.tso               # = 0f003083
