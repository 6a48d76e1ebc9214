"builtin.module"() <{sym_name = "jit_network"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<2x16x2xf32>) -> (tensor<2x16x4xf32>, tensor<2x6xi32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg9: tensor<2x16x2xf32>):
    %13 = "stablehlo.constant"() <{value = dense<[[[0.0210784208, 0.0838312879, -0.279550761, -0.24787496, -0.360384822, 0.175527781], [0.366269946, 0.517743349, 0.371867478, -0.0334965028, 0.0735081062, -0.168804348]], [[-0.0312814116, -0.0277069882, -0.711504042, -0.2223313, 0.244978458, -0.418593109], [-0.675718188, 0.373851329, 5.188990e-01, 0.0290802363, 0.222115472, -0.414038807]], [[0.190451607, 0.409010828, 0.504157603, 0.469187558, -0.372332484, -0.00406952947], [-0.0468013398, -0.20440118, 0.0374009311, 0.14956674, 0.193080112, 4.103150e-01]], [[-0.112224624, -0.568657756, -0.298175037, -0.386921316, 0.370612413, -0.271698713], [0.666359841, -0.152539417, 0.212625533, -0.440880954, -0.280961901, 0.682282149]], [[0.365628064, 0.132093593, -0.218726128, 0.0868667438, 0.162128106, -0.0875166952], [0.274154186, -0.101470239, -0.172833905, 0.0968144312, 0.238731787, -0.362569273]]]> : tensor<5x2x6xf32>}> : () -> tensor<5x2x6xf32>
    %14 = "stablehlo.constant"() <{value = dense<[[0.193159133, -0.273182958, -0.0715477839, -0.0252113678], [0.676058292, 0.274486095, -0.161278427, -0.580817044], [0.0464982912, 0.777301192, -0.948786437, 0.249588147], [0.264134794, -0.368112475, -1.06168413, 0.217152789], [-0.269477129, -0.0100351973, 9.019430e-01, -1.00489748], [0.314639807, 0.43327865, 0.142229587, -0.0545365065]]> : tensor<6x4xf32>}> : () -> tensor<6x4xf32>
    %15 = "stablehlo.convolution"(%arg9, %13) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, lhs_dilation = array<i64: 1>, padding = dense<2> : tensor<1x2xi64>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>], rhs_dilation = array<i64: 1>, window_reversal = array<i1: false>, window_strides = array<i64: 1>}> : (tensor<2x16x2xf32>, tensor<5x2x6xf32>) -> tensor<2x16x6xf32>
    %16 = "stablehlo.constant"() <{value = dense<5.000000e-01> : tensor<f32>}> : () -> tensor<f32>
    %17 = "stablehlo.broadcast_in_dim"(%16) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x16x6xf32>
    %18 = "stablehlo.multiply"(%17, %15) : (tensor<2x16x6xf32>, tensor<2x16x6xf32>) -> tensor<2x16x6xf32>
    %19 = "stablehlo.negate"(%15) : (tensor<2x16x6xf32>) -> tensor<2x16x6xf32>
    %20 = "stablehlo.constant"() <{value = dense<0.707106769> : tensor<f32>}> : () -> tensor<f32>
    %21 = "stablehlo.broadcast_in_dim"(%20) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x16x6xf32>
    %22 = "stablehlo.multiply"(%19, %21) : (tensor<2x16x6xf32>, tensor<2x16x6xf32>) -> tensor<2x16x6xf32>
    %23 = "chlo.erfc"(%22) : (tensor<2x16x6xf32>) -> tensor<2x16x6xf32>
    %24 = "stablehlo.multiply"(%18, %23) : (tensor<2x16x6xf32>, tensor<2x16x6xf32>) -> tensor<2x16x6xf32>
    %25 = "func.call"(%24) <{callee = @cumsum}> : (tensor<2x16x6xf32>) -> tensor<2x16x6xf32>
    %26 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<16xf32>
    %27 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %28 = "stablehlo.broadcast_in_dim"(%27) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<16xf32>
    %29 = "stablehlo.add"(%28, %26) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %30 = "stablehlo.broadcast_in_dim"(%29) <{broadcast_dimensions = array<i64: 1>}> : (tensor<16xf32>) -> tensor<1x16x1xf32>
    %31 = "stablehlo.broadcast_in_dim"(%30) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x16x1xf32>) -> tensor<2x16x6xf32>
    %32 = "stablehlo.divide"(%25, %31) : (tensor<2x16x6xf32>, tensor<2x16x6xf32>) -> tensor<2x16x6xf32>
    %33 = "stablehlo.constant"() <{value = dense<-1> : tensor<i32>}> : () -> tensor<i32>
    %34 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %35 = "func.call"(%32, %33, %34) <{callee = @clip}> : (tensor<2x16x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x16x6xf32>
    %36 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %37 = "stablehlo.broadcast_in_dim"(%36) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<f32>
    %38 = "stablehlo.reduce_window"(%35, %37) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [1, 1], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 3, 1>, window_strides = array<i64: 1, 1, 1>}> ({
    ^bb0(%arg12: tensor<f32>, %arg13: tensor<f32>):
      %48 = "stablehlo.maximum"(%arg12, %arg13) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%48) : (tensor<f32>) -> ()
    }) : (tensor<2x16x6xf32>, tensor<f32>) -> tensor<2x16x6xf32>
    %39 = "stablehlo.compare"(%35, %38) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<2x16x6xf32>, tensor<2x16x6xf32>) -> tensor<2x16x6xi1>
    %40 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %41 = "func.call"(%39, %35, %40) <{callee = @_where}> : (tensor<2x16x6xi1>, tensor<2x16x6xf32>, tensor<f32>) -> tensor<2x16x6xf32>
    %42 = "stablehlo.dot_general"(%41, %14) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<2x16x6xf32>, tensor<6x4xf32>) -> tensor<2x16x4xf32>
    %43 = "stablehlo.compare"(%35, %38) <{compare_type = #stablehlo<comparison_type FLOAT>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<2x16x6xf32>, tensor<2x16x6xf32>) -> tensor<2x16x6xi1>
    %44 = "stablehlo.convert"(%43) : (tensor<2x16x6xi1>) -> tensor<2x16x6xi32>
    %45 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %46 = "stablehlo.reduce"(%44, %45) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg10: tensor<i32>, %arg11: tensor<i32>):
      %47 = "stablehlo.add"(%arg10, %arg11) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%47) : (tensor<i32>) -> ()
    }) : (tensor<2x16x6xi32>, tensor<i32>) -> tensor<2x6xi32>
    "func.return"(%42, %46) : (tensor<2x16x4xf32>, tensor<2x6xi32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x16x6xf32>) -> tensor<2x16x6xf32>, sym_name = "cumsum", sym_visibility = "private"}> ({
  ^bb0(%arg6: tensor<2x16x6xf32>):
    %9 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %10 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<f32>
    %11 = "stablehlo.reduce_window"(%arg6, %10) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [15, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 16, 1>, window_strides = array<i64: 1, 1, 1>}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %12 = "stablehlo.add"(%arg7, %arg8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%12) : (tensor<f32>) -> ()
    }) : (tensor<2x16x6xf32>, tensor<f32>) -> tensor<2x16x6xf32>
    "func.return"(%11) : (tensor<2x16x6xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<2x16x6xf32>, tensor<i32>, tensor<i32>) -> tensor<2x16x6xf32>, res_attrs = [{}], sym_name = "clip", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<2x16x6xf32>, %arg4: tensor<i32>, %arg5: tensor<i32>):
    %3 = "stablehlo.convert"(%arg4) : (tensor<i32>) -> tensor<f32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x16x6xf32>
    %5 = "stablehlo.maximum"(%4, %arg3) : (tensor<2x16x6xf32>, tensor<2x16x6xf32>) -> tensor<2x16x6xf32>
    %6 = "stablehlo.convert"(%arg5) : (tensor<i32>) -> tensor<f32>
    %7 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x16x6xf32>
    %8 = "stablehlo.minimum"(%7, %5) : (tensor<2x16x6xf32>, tensor<2x16x6xf32>) -> tensor<2x16x6xf32>
    "func.return"(%8) : (tensor<2x16x6xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<2x16x6xi1>, tensor<2x16x6xf32>, tensor<f32>) -> tensor<2x16x6xf32>, res_attrs = [{}], sym_name = "_where", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<2x16x6xi1>, %arg1: tensor<2x16x6xf32>, %arg2: tensor<f32>):
    %0 = "stablehlo.convert"(%arg2) : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x16x6xf32>
    %2 = "stablehlo.select"(%arg0, %arg1, %1) : (tensor<2x16x6xi1>, tensor<2x16x6xf32>, tensor<2x16x6xf32>) -> tensor<2x16x6xf32>
    "func.return"(%2) : (tensor<2x16x6xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
