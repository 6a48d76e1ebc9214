"builtin.module"() <{sym_name = "jit_network"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<5x10xf32>) -> tensor<5x10xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg2: tensor<5x10xf32>):
    %15 = "stablehlo.constant"() <{value = dense<[[0.061280746, -0.381599575, 0.290432692, 0.167064518], [0.0522855148, -0.140268445, -0.0376699306, 0.185232192], [-0.00971487444, -0.635401845, 0.315096021, -0.137784109], [0.432094395, -0.395968884, -0.00508625945, 0.538693905], [0.390154958, -0.181514308, -0.271570951, 5.768010e-01], [0.627838373, 0.608943105, 0.242070585, 0.27424702], [0.664518952, 7.295730e-02, -7.249280e-01, 0.154794142], [-0.132810667, 0.113796905, 0.158073589, -0.31934762], [0.244269341, 0.304974496, 0.318612754, -0.0767300426], [0.410097778, 0.241031691, 0.256840289, -0.227792636]]> : tensor<10x4xf32>}> : () -> tensor<10x4xf32>
    %16 = "stablehlo.constant"() <{value = dense<"0x693E173AE13DC03D10BEBA3D4DBD16BCE7BC65BD44BE253ECBBD97BE563DFC3D763D053E893C5C3D123E12BE24BED0BD933ED73C663E973ECF3E1A3E68BD663C1FBEFBBA9D3E253EDB3D063EA43E7E3EAB3DFC3DCB3DECBC21BE893D203E53BDB5BE22BE0FBE3D3ECE3DEE3DD23EDA3C823C6C3D0ABEFFBD333DE93DEEBDBC3DA73D123E433DCC3D063E033DF83D42BE5FBE2BBEF63C32BEE1BD84BE813D383DE83D873D68BD23BD91BEDDBD5F3DC33A24BCC23D9BBDE33D583E083E44BEBA3EE63DA63DAC3C973E1FBDA13DBA3D92BDC6BC693E36BE30BD76BE353DE5BD0A3E12BE3FBEF13DE33C8CBE813E283D54BDD9BE5CBDD6BD293D07BBE0BD143E133ECBBD2DBE6ABBB63EADBDF63D523E023E20BEE8BD843E023E40BDF5BD09BEF93D343E443D0FBED5BD903E8DBB92BDB23D8BBEB8BEFF3ABBBD3A3BA5BDB4BD813D6DBED03A593EB8BE47BEE8BD10BEFF3D5BBEF5BC9FBEB83D9F3D633E5EBEB7BCA43D04BF0DBC96BDA6BE2EBD05BD1ABE84BE58BC963C00BD50BCC4BE6C3E163EA93D45BEAABC8BB99ABC9CBCB63C473E2D3D933CD83CE6BD393EA8BCB8BCA23BEDBD21BE383D85BE06BFF83DC93E843EDC3DACBDB73DBE3CD53C0A3E9D3B653D01BE283E6BBDF8BD16BE38BE803ED2BC6DBEBDBB723E1D3DAA3DD63C00BE40BDCD3D8D3DB63DA43DA03B573E66BD1EBE13BDB83DD13D1FBEB2BB19BDA53D03BE4D3E233E51BE323E85BDCBBE933D97BE0FBEFE3D1EBE47BD533EC9BE6BBE0FBC213E893D6E3EBDBE02BEDEBD55BEE13C38BE0FBDEABD61BED5BDEFBC373D08BEA13A5FBDDDBD533E6BBD4D3DCFBDB9BD593E3BBEEA3C083E0F3D0DBE2CBE123E71BE6C3E9ABC4F3EC03DA3BE813E1A3E7EBDB3BEBA3E11BE303E523EFA3CEEBD48BE62BDA5BE9DBE83BD4A3E14BD413E20BE013E21BE80BD533E6ABEAC3CE93D153DEBBD633E493E23BE20BEE7BD893D8D3E2E3E793D6E3D943CB7BD8FBE593D93BEB2BD6EBD64BE023C533EF23D97BEA73DF1BDF83D1E3EFF3BC2BD68BD5ABE1ABEB13D563D543EC43D473DFFBDD33D033ECEBD473EAE3E7ABEC13D64BD84BEED3D963DE33DDEBDE53D7A3E2EBE37BE3B3EC6BD2E3ECDBD7A3D143E30BE533E25BDA5BDB73BBCBD7B3E6C3EB13C953E813ECE3C1E3EAE3D0C3EF03C29BEC33EA2BD333D153EDE3C1E3E153E93BD98BCC33D98BDC43D21BE153E9DBD7A3E95BDB7BD0CBED0BD11BEC7BD59BD8FBC30BCE9BEE2BE27BD86BD4E3E7E3CD1BE66BDE4BD273E3EBE3C3C553D84BD023E72BC4BBE623D02BE5F3ED53D6E3DEEBD7B3D5C3E45BEE83D37BE8C3D4DBE7C3E09BC60BE0F3E4F3DFF3CA3BD91BDDC3DDEBE87BDD53E843E59BEECBD913E6ABD62BE093E8D3EDFBDA93BB73E15BE2A3E09BD0D3DB2BD5FBE353E84BC2C3EAB3D473E893D8B3EE93D72BDB73D893C213D303E9B3E053C21BEA7BD5A3E253E9E3D74BE803C963CBA3D58BD623E2C3E41BE02BE983BF7BC15BE3FBD833D36BEF5BCA73EA13E81BE223EEBBD5BBE2FBDFD3D853EF53DD4BDC8BC493E3EBA53B9923D41BEFBBD57BD91BE04BECEBD5ABDDABD85BEEE3DFD3D33BC123ECCBD003E95BB6EBE6BBDB3BD2ABE983D293EEC3D2ABD5A3C24BED5BD89BEDEBD29BE233ECA3E38BE93BD5C3D9A3DD73D043E963E5E3DE73DD43D97BE76BE82BEBDBC903E63BE1FBE17BDAD3D18BE233EA4BDE8BD8CBD493D53BE153D1FBE213D3BBD85BE1BBD0F3E71BEEEBE26BD293EC93D7F3E02BECE3E05BE49BD663E973E403EF03D88BE153DC6BE5A3E763E39BD71BE52BE813D83BD"> : tensor<4x10x16xbf16>}> : () -> tensor<4x10x16xbf16>
    %17 = "stablehlo.constant"() <{value = dense<"0xB0BD05BE993DD6BDAFBD8A3C7D3DA6BD80BEEE3DE0BDF43BE23D9B3DE13D1BBE273E81BDDDBD8F3D11BD2EBE323EC63D6DBD563D3F3D163EB4BDE0BD42BD62BB2BBDEB3D2FBEAEBC5F3E1ABE0D3E293EE53DB83D2D3E8B3B95BDA93C1E3D093EC93D4D3D4ABE9CBD563E213E973D983DF73D503EBABDE2BC1F3E34BE37BDEABDFABD1ABEAC3DE43D2B3D143E3FBDDDBDEFBC8CBD91BD733CC83D1A3EF6BD36BEBEBC07BED9BBB4BC503D3DBE353EF3BA083E69BE0B3DDE3D39BE763D06BE163E98BE19BEBDBD13BD9C3DDF3D073EEDBD62BDA93CAF3CFD3C42BEA13D34BEC73C0B3D9EBD63BEBDBDBBBD4B3E163E00BE333D423E80BB37BE083C54BD0DBEBB3D113E30BD12B9BC3DBA3D88BDF8BDBA3A7E3D5ABD4CBD323D09BE71BDB33D0EBE2BBE9CBD6F3E91BD87BD03BEE6BB42BE993D263E35BC4E3E28BD323EE4BD783E03BD923ED4BDB8BCD73DC03D113EDC3D913ED8BD313D37BEF0BDB1BC76BC13BE21BE1ABD1EBC913DCCBDAE3D08BDE63D683E1ABE7BBEB53D913C33BD723EABBD2E3E173ECABCC03D54BD873DA13CDD3C99BC543BB7BD89BC52BDB5BD73BE3F3EEDBD0A3E123E313B213D0EBD8FBDE8BC383E843C723CD7BC6E3DBDBBB9BE38BE55BEA9BDA53D2FBEF2BD5ABE793D6EBEDFBD413E2CBE2ABE36BDF93D19BE21BE633D18BEA3BD503D113DC23D383DE73DC8BB6B3D6B3EDFBD573DBE3DFE3C023E22BDCDBD103EEC3D26BE1D3E513EA13D9FBB4D3BBBBDE63C23BDCABD03BDFDBD8DBDFC3D92BD39BD23BD033DE43D04BE763D55BDAE3D293DEB3D9A3CD63BBA3D943DE3BCB6BD143E903A8FBD0EBE52BE6ABE413ECC3D953E57BE2EBEEABC743E813D263D3BBD6E3EBBBC023E86BC86BEB2BDE73D82BED6BD313EF83D2EBE813EE0BD8F3D6CBD21B9883E33BEA5BC353E42BE08BEDD3C723EFEBDA73DEE3D033D71BDD5BC19BE283D563E0EBDF63C263D943DAE3D26BD5D3D2DBD37BD0DBD2C3D5ABC8BBE13BDB2BD0C3C223C8F3D1B3D86BD703EB1BD9BBDCCBDE23DB33E373EE63DAD3D08BE86BD2F3D7F3CB1BC78BC9E3BDC3DD23D44BEC73DC2BD23BE663DCEBDA13D7FBDE5BD88BC12BE20BE67BD3ABDA7BEDCBD0FBD5D3EB43D983D1BBEA8BED5BD50BEFE3CA33CB53D04BE90BD1ABE663C473D1ABE7FBE0E3E30BE353D02BDBDBDEA3CAE3B9A3D17BECEBDD4BD9CBD6B3E2EBD463E693DDEBD23BCB2BDD23C1D3EAF3D9DBDF9BC073DFDBDCDBDA3BD68BE8BBD4DBEA1BC85BD003CBB3D103E013E3FBD793DEE3C3B3C0BBE51BEF43CE7BDA03CB03C1E3DDEBC043EFC3D963E343EE73CA4BD1D3DB6BD343E60BC1FBE123E8ABE633E8B3D013E8F3D9FBD8D39FEBC34BD093D0B3E373D5B3D03BDB2BD443E683EF13C39BDA5BDA9BB8EBB273C0CBEEA3DFE3BAB3C433E89BCEEBD973DD6BD61BDB23CD5BDC0BDEABD203D6CBDB03CA4BC3DBC983D463ED43D0E3E063E4EBD5D3E90BDF6BC4ABCA2BD0CBEA0BDA9BDDDBD62BEE0BCE0BDCBBD70BE3EBDA43D0DBCE33DB63DF1BBA2BC383EB73DD9BDBF3D99BD73BE8D3DD93D803E6ABD11BE433EB83CF6BC92BDCD3DB23DF8BC5DBD3E3E3F3B2D3EE9BDFBBD0C3E0BBE19BE253E87BE8FBE0F3D023E0FBD763DABBDCABD05BEF03CD63D6EBEAEBC2B3C2A3E033E6D3D383D603E103E733D4ABE8DBE9CBC4C3D5C3D59BDEEBD3FBD343D03BEC53C87BEE9BDDC3CC3BD9C3D7BBE133E873DC6BDFABDCC3D30BEB3BD5EBD7E3E05BEEB3D10BEF03B433ED8BDAF3C3A3D1BBE53BDE03D023EF4BD2C3E98BD133E67BDEEBD3A3E1BBC22BA903D"> : tensor<4x16x10xbf16>}> : () -> tensor<4x16x10xbf16>
    %18 = "stablehlo.dot_general"(%arg2, %15) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<5x10xf32>, tensor<10x4xf32>) -> tensor<5x4xf32>
    %19 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %20 = "stablehlo.reduce"(%18, %19) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg7: tensor<f32>, %arg8: tensor<f32>):
      %49 = "stablehlo.maximum"(%arg7, %arg8) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%49) : (tensor<f32>) -> ()
    }) : (tensor<5x4xf32>, tensor<f32>) -> tensor<5xf32>
    %21 = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
    %22 = "stablehlo.broadcast_in_dim"(%21) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %23 = "stablehlo.maximum"(%22, %20) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %24 = "stablehlo.broadcast_in_dim"(%23) <{broadcast_dimensions = array<i64: 0>}> : (tensor<5xf32>) -> tensor<5x1xf32>
    %25 = "stablehlo.broadcast_in_dim"(%24) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<5x1xf32>) -> tensor<5x4xf32>
    %26 = "stablehlo.subtract"(%18, %25) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %27 = "stablehlo.exponential"(%26) : (tensor<5x4xf32>) -> tensor<5x4xf32>
    %28 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %29 = "stablehlo.reduce"(%27, %28) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %48 = "stablehlo.add"(%arg5, %arg6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%48) : (tensor<f32>) -> ()
    }) : (tensor<5x4xf32>, tensor<f32>) -> tensor<5xf32>
    %30 = "stablehlo.broadcast_in_dim"(%29) <{broadcast_dimensions = array<i64: 0>}> : (tensor<5xf32>) -> tensor<5x1xf32>
    %31 = "stablehlo.broadcast_in_dim"(%30) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<5x1xf32>) -> tensor<5x4xf32>
    %32 = "stablehlo.divide"(%27, %31) : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %33:2 = "chlo.top_k"(%32) <{k = 2 : i64}> : (tensor<5x4xf32>) -> (tensor<5x2xf32>, tensor<5x2xi32>)
    %34 = "func.call"(%33#1) <{callee = @_one_hot}> : (tensor<5x2xi32>) -> tensor<5x2x4xf32>
    %35 = "stablehlo.broadcast_in_dim"(%33#0) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<5x2xf32>) -> tensor<5x2x1xf32>
    %36 = "stablehlo.broadcast_in_dim"(%35) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<5x2x1xf32>) -> tensor<5x2x4xf32>
    %37 = "stablehlo.multiply"(%34, %36) : (tensor<5x2x4xf32>, tensor<5x2x4xf32>) -> tensor<5x2x4xf32>
    %38 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %39 = "stablehlo.reduce"(%37, %38) <{dimensions = array<i64: 1>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %47 = "stablehlo.add"(%arg3, %arg4) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%47) : (tensor<f32>) -> ()
    }) : (tensor<5x2x4xf32>, tensor<f32>) -> tensor<5x4xf32>
    %40 = "stablehlo.convert"(%arg2) : (tensor<5x10xf32>) -> tensor<5x10xbf16>
    %41 = "stablehlo.dot_general"(%16, %40) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<4x10x16xbf16>, tensor<5x10xbf16>) -> tensor<4x16x5xbf16>
    %42 = "stablehlo.transpose"(%41) <{permutation = array<i64: 0, 2, 1>}> : (tensor<4x16x5xbf16>) -> tensor<4x5x16xbf16>
    %43 = "func.call"(%42) <{callee = @silu}> : (tensor<4x5x16xbf16>) -> tensor<4x5x16xbf16>
    %44 = "stablehlo.dot_general"(%43, %17) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<4x5x16xbf16>, tensor<4x16x10xbf16>) -> tensor<4x5x10xbf16>
    %45 = "stablehlo.convert"(%44) : (tensor<4x5x10xbf16>) -> tensor<4x5x10xf32>
    %46 = "stablehlo.dot_general"(%45, %39) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [1], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<4x5x10xf32>, tensor<5x4xf32>) -> tensor<5x10xf32>
    "func.return"(%46) : (tensor<5x10xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<5x2xi32>) -> tensor<5x2x4xf32>, res_attrs = [{}], sym_name = "_one_hot", sym_visibility = "private"}> ({
  ^bb0(%arg1: tensor<5x2xi32>):
    %9 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<5x2xi32>) -> tensor<5x2x1xi32>
    %10 = "stablehlo.iota"() <{iota_dimension = 2 : i64}> : () -> tensor<1x1x4xi32>
    %11 = "stablehlo.broadcast_in_dim"(%9) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<5x2x1xi32>) -> tensor<5x2x4xi32>
    %12 = "stablehlo.broadcast_in_dim"(%10) <{broadcast_dimensions = array<i64: 0, 1, 2>}> : (tensor<1x1x4xi32>) -> tensor<5x2x4xi32>
    %13 = "stablehlo.compare"(%11, %12) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<5x2x4xi32>, tensor<5x2x4xi32>) -> tensor<5x2x4xi1>
    %14 = "stablehlo.convert"(%13) : (tensor<5x2x4xi1>) -> tensor<5x2x4xf32>
    "func.return"(%14) : (tensor<5x2x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x5x16xbf16>) -> tensor<4x5x16xbf16>, res_attrs = [{}], sym_name = "silu", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4x5x16xbf16>):
    %0 = "stablehlo.negate"(%arg0) : (tensor<4x5x16xbf16>) -> tensor<4x5x16xbf16>
    %1 = "stablehlo.exponential"(%0) : (tensor<4x5x16xbf16>) -> tensor<4x5x16xbf16>
    %2 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<bf16>}> : () -> tensor<bf16>
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<4x5x16xbf16>
    %4 = "stablehlo.add"(%3, %1) : (tensor<4x5x16xbf16>, tensor<4x5x16xbf16>) -> tensor<4x5x16xbf16>
    %5 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<bf16>}> : () -> tensor<bf16>
    %6 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64>}> : (tensor<bf16>) -> tensor<4x5x16xbf16>
    %7 = "stablehlo.divide"(%6, %4) : (tensor<4x5x16xbf16>, tensor<4x5x16xbf16>) -> tensor<4x5x16xbf16>
    %8 = "stablehlo.multiply"(%arg0, %7) : (tensor<4x5x16xbf16>, tensor<4x5x16xbf16>) -> tensor<4x5x16xbf16>
    "func.return"(%8) : (tensor<4x5x16xbf16>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
